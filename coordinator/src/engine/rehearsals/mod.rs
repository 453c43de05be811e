//! Training steps rehearsed on the hosts' CPUs: what is known, what is being made, what failed where. A rehearsal is a
//! pure computation, kept by its content; the book of them is no life of anything, and losing what is under way only
//! means asking again. Which ones to ask for is `schedule::rehearse`'s to say.

mod ask;
mod content;
mod hosts;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::store::v1::RehearsalRecord;
use vram::{Bytes, Mode, Settings, Workload};

use content::workload_of;

use crate::schedule::{NeedId, Rehearsal};

/// Rehearsed for a card of the Ampere years: the memory model puts other cards' workspaces in the place of these.
pub const WORKSPACE: Bytes = Bytes(8_519_680);
/// For a model of some forty layers on two slow cores it takes a minute.
const TIME_LIMIT: Duration = Duration::from_secs(900);
/// A host says within this whether it can rehearse, or jobs go on without.
const LOOKING: Duration = Duration::from_secs(60);
/// A host that is out of reach for so long is not waited for.
const OUT_OF_REACH: Duration = Duration::from_secs(60);
/// After a failure that another try may mend, on the same host.
const BACKOFF: Duration = Duration::from_secs(30);
const TRIES: u32 = 2;
/// A configuration that is longer is no dense model's.
const SETTINGS_MAX: usize = 128 * 1024;
/// Streams in memory from the start; what is older is read again when a sweep asks for it.
const LOADED_MAX: usize = 256;

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
    pub family: Arc<str>,
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
}

#[derive(Default)]
pub struct Family {
    /// By rank.
    pub made: BTreeMap<u64, RehearsalRecord>,
    /// When jobs began to wait for one; `None` while none is wanted.
    since: Option<Instant>,
    /// Not in the memory model yet.
    unread: BTreeSet<u64>,
}

/// A stream that is being replayed for all needs of its family, beside the engine's thread.
struct Warming {
    family: Arc<str>,
    host: String,
    done: Arc<AtomicBool>,
}

#[derive(Default)]
pub struct Book {
    pub families: BTreeMap<Arc<str>, Family>,
    /// By key.
    pub asked: BTreeMap<String, Asked>,
    /// By (family, rank, host).
    pub failures: BTreeMap<(Arc<str>, u64, String), Failure>,
    warming: Vec<Warming>,
    /// Needs whose jobs wait, and for whom: as of the last round.
    waiting: BTreeMap<NeedId, Waits>,
    last_done: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Waits {
    Queued,
    Looking(String),
    Running(String),
}

impl Book {
    pub fn waits(&self, need: NeedId) -> Option<Rehearsal<'_>> {
        self.waiting.get(&need).map(|waits| match waits {
            Waits::Queued => Rehearsal::Queued,
            Waits::Looking(host) => Rehearsal::Looking(host),
            Waits::Running(host) => Rehearsal::Running(host),
        })
    }

    /// Rehearsals that a host does now.
    pub fn on(&self, host: &str) -> u32 {
        let here = self.asked.values().filter(|asked| asked.host == host);
        u32::try_from(here.count()).unwrap_or(u32::MAX)
    }

    /// What a need's size follows from: its own rank's, or the two that it is scaled from.
    pub fn behind(&self, family: &str, rank: u64) -> Vec<(u64, &RehearsalRecord)> {
        let Some(family) = self.families.get(family) else {
            return Vec::new();
        };
        if let Some(own) = family.made.get(&rank) {
            return vec![(rank, own)];
        }
        let mut all: Vec<_> = family.made.iter().map(|(at, one)| (*at, one)).collect();
        all.sort_by_key(|(at, _)| at.abs_diff(rank));
        all.truncate(2);
        all
    }

    pub fn is_empty(&self) -> bool {
        self.families.is_empty() && self.asked.is_empty() && self.failures.is_empty()
    }

    /// Where rehearsals of a family have failed.
    pub fn failed(
        &self,
        family: &str,
    ) -> impl Iterator<Item = (&(Arc<str>, u64, String), &Failure)> {
        self.failures
            .iter()
            .filter(move |((of, ..), _)| **of == *family)
    }

    fn is_warming(&self, family: &str) -> Option<&str> {
        let mut warming = self.warming.iter();
        let found = warming.find(|one| &*one.family == family);
        found.map(|one| one.host.as_str())
    }

    /// Families whose streams have been replayed for all that needs them.
    fn warmed(&mut self) -> Vec<Arc<str>> {
        let is_done = |one: &Warming| one.done.load(Ordering::Acquire);
        let done = self.warming.iter().filter(|one| is_done(one));
        let done = done.map(|one| one.family.clone()).collect();
        self.warming.retain(|one| !is_done(one));
        done
    }

    /// From the store. Whether it is to be read into the memory model is the caller's business.
    pub fn remember(&mut self, record: RehearsalRecord) -> Option<Workload> {
        let workload = workload_of(&record)?;
        let (family, rank) = workload.family()?;
        let family = self.families.entry(family.into()).or_default();
        let newer = |known: &RehearsalRecord| known.at_ms > record.at_ms;
        if family.made.get(&rank).is_some_and(newer) {
            return None;
        }
        family.unread.insert(rank);
        family.made.insert(rank, record);
        Some(workload)
    }

    /// Its blob is gone.
    fn lose(&mut self, workload: &Workload) {
        if let Some((family, rank)) = workload.family()
            && let Some(family) = self.families.get_mut(family.as_str())
        {
            family.made.remove(&rank);
            family.unread.remove(&rank);
        }
    }

    pub fn read(&mut self, workload: &Workload) {
        if let Some((family, rank)) = workload.family()
            && let Some(family) = self.families.get_mut(family.as_str())
        {
            family.unread.remove(&rank);
        }
    }
}

/// The newest first, as many as are read into memory at the start.
pub fn newest(mut all: Vec<RehearsalRecord>) -> (Vec<RehearsalRecord>, Vec<RehearsalRecord>) {
    all.sort_by_key(|record| std::cmp::Reverse(record.at_ms));
    let rest = all.split_off(all.len().min(LOADED_MAX));
    (all, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::content::settings_of;
    use super::content::tests::workload;
    use super::*;

    fn record(workload: &Workload, at_ms: u64) -> RehearsalRecord {
        RehearsalRecord {
            settings: serde_json::to_string(&settings_of(workload)).expect("text"),
            mode: "train".into(),
            at_ms,
            ..RehearsalRecord::default()
        }
    }

    #[test]
    fn what_is_kept_is_found_again_by_the_trials_own_family() {
        let mut book = Book::default();
        for (rank, at) in [(8, 2), (32, 1)] {
            let one = workload(&json!({ "rank": rank }));
            assert_eq!(
                book.remember(record(&one, at))
                    .and_then(|kept| kept.family()),
                one.family()
            );
        }
        let (family, rank) = workload(&json!({"rank": 16, "alpha": 32}))
            .family()
            .expect("a family");
        let ranks = |found: Vec<(u64, &RehearsalRecord)>| {
            found.into_iter().map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!(ranks(book.behind(&family, rank)), [8, 32]);
        assert_eq!(ranks(book.behind(&family, 32)), [32]);
        // An older one does not take its place.
        assert!(book.remember(record(&workload(&json!({})), 1)).is_none());
    }
}
