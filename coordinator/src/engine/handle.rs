//! What may be asked of the engine, and the handle to ask it by. The handle decides nothing; a request that finds
//! the engine gone is answered so.

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use proto::store::v1::HostRecord;
use proto::v1;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use jobs::life::MarkKind;
use jobs::staged::Manifest;

use super::{Refusal, Settled, State, Taken, Unpacked};

type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub enum Command {
    Submit {
        request: v1::SubmitRequest,
        /// The attachments' digests: their bytes are kept already.
        attached: Vec<(String, Vec<u8>)>,
        /// The files that travel with it; their contents are kept already.
        manifest: Manifest,
        reply: Reply<(u64, bool)>,
    },
    Mark {
        target: String,
        kind: MarkKind,
        reply: Reply<Vec<String>>,
    },
    Host {
        name: String,
        wish: HostWish,
        reply: Reply<()>,
    },
    Register {
        record: HostRecord,
        held: Vec<v1::HeldAttempt>,
        sender: UnboundedSender<v1::CoordinatorMessage>,
        reply: Reply<Registered>,
    },
    Heartbeat {
        host: String,
        session: u64,
        devices: Vec<v1::DeviceState>,
    },
    Event {
        host: String,
        session: u64,
        event: v1::Event,
        /// Newest value of each metric, read from the report.
        metrics: serde_json::Map<String, serde_json::Value>,
    },
    CanRehearse {
        host: String,
        session: u64,
        can: v1::CanRehearse,
    },
    Rehearsed {
        host: String,
        session: u64,
        answer: v1::Rehearsed,
        /// What the answer's bytes say; why they say nothing.
        unpacked: Result<Unpacked, String>,
    },
    Recorded {
        host: String,
        session: u64,
        recorded: Arc<v1::Recorded>,
        /// What its bytes say; why they say nothing.
        unpacked: Arc<Result<Unpacked, String>>,
        /// Of an attempt whose sweep has settled, once that was asked for.
        settled: Option<Box<Settled>>,
        reply: Reply<Taken>,
    },
    /// The session's stream has ended.
    Gone {
        host: String,
        session: u64,
    },
    Read(Box<dyn FnOnce(&mut State) + Send>),
    FleetComplete,
    /// Place nothing more until the end of this process.
    Hold,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWish {
    Drain,
    Resume,
    Forget,
}

/// The answer to a registration; the Welcome itself is sent by the engine, before anything else.
#[derive(Clone, Debug)]
pub struct Registered {
    pub session: u64,
    /// Cancelled when the engine stops listening to this session.
    pub close: CancellationToken,
}

#[derive(Clone)]
pub struct EngineHandle {
    sender: Sender<Command>,
    /// Why the engine could not go on; set before anybody can notice that it has ended.
    failure: Arc<OnceLock<Refusal>>,
}

impl EngineHandle {
    pub fn new(sender: Sender<Command>, failure: Arc<OnceLock<Refusal>>) -> Self {
        Self { sender, failure }
    }

    /// For what needs no answer. A stopped engine hears nothing, and its sessions end by themselves.
    pub fn tell(&self, command: Command) {
        let _ = self.sender.send(command);
    }

    pub async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let stopped = || {
            let why = self.failure.get().cloned();
            why.unwrap_or_else(|| Refusal::Stopped("the coordinator is stopping".into()))
        };
        self.sender.send(make(reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Looks at the state between two batches: everything seen is durable.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut State) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask(|reply| {
            Command::Read(Box::new(move |state| {
                let _ = reply.send(look(state));
            }))
        })
        .await
    }
}
