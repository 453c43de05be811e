//! The one writer of state. Everything that changes goes through its thread: take what waits, apply it in memory,
//! decide, write it all as one durable batch, and only then answer and send. No lock, no second writer.

mod dispatch;
mod fleet;
mod handle;
mod hosts;
mod liveness;
mod marks;
mod open;
mod refusal;
mod register;
mod rehearsals;
mod report;
mod restore;
mod round;
mod shown;
mod sizes;
mod submit;
mod thread;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::SweepId;
use proto::store::v1::SweepRecord;
use tokio::sync::broadcast;

pub use fleet::Host;
pub use handle::{Command, EngineHandle, HostWish, Registered};
pub use open::{OpenSweep, main_kind, required, workload};
pub use refusal::Refusal;
pub use rehearsals::{Book, Failure, Settled, Stack, Subject, Taken, Unpacked};
pub use restore::{life_of, open_files, travelling};
pub use sizes::Sizes;
pub use thread::spawn;

use crate::live::Live;
use crate::schedule::{JobKey, WaitReason};
use crate::store::{Batch, Reader, Record};

/// Times that an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub heartbeat: Duration,
    /// No word from a host for so long: its attempts are given up.
    pub grace: Duration,
    /// After a start or a new host: nothing is ruled infeasible before.
    pub fleet_settles: Duration,
    /// A job waits so long for a rehearsal, or for the next one to come in.
    pub rehearsal_wait: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            grace: Duration::from_secs(600),
            fleet_settles: Duration::from_secs(30),
            rehearsal_wait: Duration::from_secs(300),
        }
    }
}

/// A line of what happened, for those who watch a sweep.
#[derive(Clone, Debug)]
pub struct Happening {
    pub sweep: u64,
    pub at: u64,
    pub job: String,
    pub code: &'static str,
    pub text: String,
}

/// Everything known, in memory. Read by handlers between two batches, so only what is durable is ever seen.
pub struct State {
    pub open: BTreeMap<u64, OpenSweep>,
    /// Every sweep, open or settled, without its file.
    pub heads: BTreeMap<u64, SweepRecord>,
    pub by_id: HashMap<SweepId, u64>,
    pub hosts: BTreeMap<String, Host>,
    pub sizes: Sizes,
    pub book: Book,
    /// Why each ready job waits, as of the last round.
    pub waiting: BTreeMap<JobKey, WaitReason>,
    pub data: PathBuf,
    pub reader: Arc<dyn Reader>,
    pub live: Arc<Live>,
    pub timing: Timing,
    pub fleet_complete: bool,
    /// Nothing more is placed: this process is about to stop what runs.
    pub on_hold: bool,
    /// When the fleet last grew, by a monotonic clock.
    pub fleet_grew: Instant,
    newest_sweep: u64,
    newest_observation: u64,
    newest_session: u64,
    last_round: Instant,
    feed: broadcast::Sender<Happening>,
}

/// Said once the batch is durable.
type After = Box<dyn FnOnce(&State) + Send>;

/// What one request adds to the batch, and what is to be said once that is durable.
#[derive(Default)]
struct Work {
    records: Batch,
    after: Vec<After>,
    /// Blobs that the records named until now: removed once the batch is durable, unless others name them.
    unused: Vec<String>,
    happened: Vec<Happening>,
    /// Something changed that a round of scheduling may answer to.
    dirty: bool,
}

impl Work {
    fn write(&mut self, record: impl Into<Record>) {
        self.records.push(record.into());
    }

    fn then(&mut self, what: impl FnOnce(&State) + Send + 'static) {
        self.after.push(Box::new(what));
    }

    fn reply<T: Send + 'static>(&mut self, to: tokio::sync::oneshot::Sender<T>, value: T) {
        // A caller that has gone does not want its answer any more.
        self.then(move |_| drop(to.send(value)));
    }

    fn tell(&mut self, sweep: u64, at: u64, job: impl ToString, code: &'static str, text: String) {
        self.happened.push(Happening {
            sweep,
            at,
            job: job.to_string(),
            code,
            text,
        });
    }
}

impl State {
    pub fn watch(&self) -> broadcast::Receiver<Happening> {
        self.feed.subscribe()
    }

    /// By id, or by name for the newest of that name.
    pub fn find(&self, text: &str) -> Result<u64, Refusal> {
        let by_id = text
            .parse()
            .ok()
            .and_then(|id: SweepId| self.by_id.get(&id).copied());
        let by_name = || {
            let mut heads = self.heads.values().rev();
            heads.find(|head| head.name == text).map(|head| head.number)
        };
        by_id.or_else(by_name).ok_or_else(|| {
            Refusal::NotFound(format!(
                "no sweep `{text}` is known; `sweep list` shows all"
            ))
        })
    }

    pub fn fleet_settled(&self, now: Instant) -> bool {
        self.fleet_complete || now.duration_since(self.fleet_grew) >= self.timing.fleet_settles
    }
}
