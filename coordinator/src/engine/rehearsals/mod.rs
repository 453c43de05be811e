//! Training steps rehearsed on the hosts' CPUs, and those that attempts recorded on a card: what is known, what is being
//! made, what failed where. A rehearsal is a pure computation, kept by its content; losing what is under way only means
//! asking again. Which ones to ask for is `schedule::rehearse`'s to say.

mod ask;
mod book;
mod content;
mod hosts;
mod keep;
mod orders;
mod recorded;
mod take;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use book::{Book, newest};
pub use content::Unpacked;
pub use recorded::{Settled, Taken};
use vram::{Bytes, Kernels, Mode, Settings};

/// Rehearsed for a card of the Ampere years: the memory model puts other cards' workspaces in the place of these.
pub const WORKSPACE: Bytes = Bytes(8_519_680);
/// For a model of some forty layers on two slow cores it takes a minute.
const TIME_LIMIT: Duration = Duration::from_secs(900);
/// A host says within this whether it can rehearse, or jobs go on without.
pub(in crate::engine) const LOOKING: Duration = Duration::from_secs(60);
/// A host that is out of reach for so long is not waited for.
const OUT_OF_REACH: Duration = Duration::from_secs(60);
/// After a failure that another try may mend, on the same host.
const BACKOFF: Duration = Duration::from_secs(30);
const TRIES: u32 = 2;
/// A configuration that is longer is no dense model's.
const SETTINGS_MAX: usize = 128 * 1024;
/// Streams in memory from the start; what is older is read again when a sweep asks for it.
const LOADED_MAX: usize = 256;

/// What streams tell of each other: recipes that differ in rank only, on cards with the same kernels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub family: Arc<str>,
    pub kernels: Kernels,
}

/// What a host's Python can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stack {
    /// It is finding out, since then.
    Looking(Instant),
    Cannot(String),
    /// With these versions.
    Can(String),
}

impl Stack {
    /// Of a host that has just registered with so many rehearsals at a time.
    pub fn of_new(rehearsals: u32, now: Instant) -> Self {
        if rehearsals == 0 {
            return Self::Cannot("its file says rehearsals = 0, or it is simulated".into());
        }
        Self::Looking(now)
    }

    /// False only where the host's Python was looked at and has no such package, or lacks one that this one needs.
    pub fn may_have(&self, package: &str) -> bool {
        let stack = match self {
            Self::Can(stack) => stack,
            Self::Cannot(why) => return !why.contains(proto::said::NO_PACKAGE),
            Self::Looking(_) => return true,
        };
        let names = stack.split(", ").filter_map(|one| one.split(' ').next());
        names.into_iter().any(|name| name == package)
    }

    pub fn can(&self) -> Option<&str> {
        match self {
            Self::Can(stack) => Some(stack),
            _ => None,
        }
    }
}

/// A rehearsal that a host was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub subject: Subject,
    pub rank: u64,
    pub host: String,
    stack: String,
    mode: Mode,
    /// In the memory model's words.
    settings: Settings,
    since: Instant,
    /// When its host was last heard of.
    heard: Instant,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub error: String,
    pub message: String,
    tries: u32,
    until: Instant,
    /// Nothing but another stack could mend it.
    last: bool,
    /// It failed with these versions.
    stack: String,
    /// What its host allowed, where that was too little: no host that allows as much is asked.
    memory: Option<Bytes>,
}

/// A stream that is being replayed for all needs of its family, beside the engine's thread.
struct Warming {
    subject: Subject,
    host: String,
    /// Jobs wait for it: they waited for the rehearsal that has just come in.
    awaited: bool,
    done: Arc<AtomicBool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Waits {
    Queued,
    Looking(String),
    Running(String),
}

/// Keys of rehearsals that a host does without having been asked by this coordinator: it was started anew meanwhile.
type Strays = BTreeSet<String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_lacks_what_comes_first_lacks_the_rest() {
        let has = |stack: Stack| stack.may_have("bitsandbytes");
        assert!(has(Stack::Can("torch 2.15.0, bitsandbytes 0.50.2".into())));
        assert!(!has(Stack::Can("torch 2.15.0".into())));
        let why = format!("{}torch` is missing: No module", proto::said::NO_PACKAGE);
        assert!(!has(Stack::Cannot(why)));
        assert!(has(Stack::Cannot("its file says rehearsals = 0".into())));
    }
}
