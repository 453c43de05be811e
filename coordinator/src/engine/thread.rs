//! The engine's thread: take, apply, decide, commit, answer. A commit that fails ends it: what memory says would no
//! longer be what the disk says, and only a restart makes them one again.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::submit::Came;
use super::{Command, EngineHandle, Refusal, State, Timing, Work};
use crate::clock;
use crate::live::Live;
use crate::store::{Store, StoreError};

/// Requests taken into one batch.
const GROUP: usize = 1024;
/// Rounds of scheduling in one batch: a trial has no more stages to go through than this.
const ROUNDS: u32 = 4;
/// Without any request the engine still looks at its clocks this often.
const TICK: Duration = Duration::from_millis(500);

pub struct Started {
    pub handle: EngineHandle,
    /// Resolves when the engine has ended; with the error when it could not go on.
    pub ended: oneshot::Receiver<Option<StoreError>>,
}

/// Reads the store into memory and starts the thread.
pub fn spawn(
    data: PathBuf,
    store: Box<dyn Store>,
    live: Arc<Live>,
    timing: Timing,
) -> Result<Started, StoreError> {
    let state = State::load(data, store.reader(), live, timing, Instant::now())?;
    let (sender, receiver) = channel();
    let (end, ended) = oneshot::channel();
    let failure = Arc::new(OnceLock::new());
    let engine = Engine {
        state,
        store,
        failure: failure.clone(),
    };
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
            let _ = end.send(engine.run(&receiver));
        })
        .map_err(|source| StoreError::Io {
            doing: "start the engine's thread for",
            path: ".".into(),
            source,
        })?;
    Ok(Started {
        handle: EngineHandle::new(sender, failure),
        ended,
    })
}

struct Engine {
    state: State,
    store: Box<dyn Store>,
    failure: Arc<OnceLock<Refusal>>,
}

impl Engine {
    fn run(mut self, receiver: &Receiver<Command>) -> Option<StoreError> {
        loop {
            let (commands, stop) = gather(receiver);
            let mut work = Work::default();
            if let Err(error) = self.turn(commands, &mut work) {
                let refusal = Refusal::from(&error);
                tracing::error!("{refusal}");
                // Before `work` is let go of: who waits for an answer in it then reads why there is none.
                let _ = self.failure.set(refusal);
                drop(work);
                return Some(error);
            }
            if stop {
                return None;
            }
        }
    }

    /// One batch: everything that waited, and the round of scheduling that it calls for.
    fn turn(&mut self, commands: Vec<Command>, work: &mut Work) -> Result<(), StoreError> {
        let (at, now) = (clock::now_ms(), Instant::now());
        let mut reads = Vec::new();
        for command in commands {
            match command {
                Command::Read(look) => reads.push(look),
                other => self
                    .state
                    .handle(other, self.store.as_mut(), at, now, work)?,
            }
        }
        self.state.watch_over(at, now, work);
        // A ruling may make what follows ready: rounds go on until nothing more follows, within reason.
        work.dirty |= self.state.round_is_due(now);
        for _ in 0..ROUNDS {
            if std::mem::take(&mut work.dirty) {
                self.state.round(at, now, work);
            }
        }
        if !work.records.is_empty() {
            self.store.commit(&work.records)?;
        }
        for digest in work.unused.drain(..) {
            if self.state.names_blob(&digest) {
                continue;
            }
            // Only room on the disk is lost.
            if let Err(error) = self.store.drop_blob(&digest) {
                tracing::warn!(%error, "a stream that nothing needs is left");
            }
        }
        for happening in work.happened.drain(..) {
            let _ = self.state.feed.send(happening);
        }
        for say in work.after.drain(..) {
            say(&self.state);
        }
        for look in reads {
            look(&mut self.state);
        }
        Ok(())
    }
}

/// Waits for a request, then takes all that wait with it.
fn gather(receiver: &Receiver<Command>) -> (Vec<Command>, bool) {
    let mut commands = Vec::new();
    let mut take = |command| match command {
        Command::Stop => true,
        other => {
            commands.push(other);
            false
        }
    };
    let mut stop = match receiver.recv_timeout(TICK) {
        Ok(command) => take(command),
        Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => true,
    };
    for command in receiver.try_iter().take(GROUP) {
        stop |= take(command);
    }
    (commands, stop)
}

impl State {
    fn handle(
        &mut self,
        command: Command,
        store: &mut dyn Store,
        at: u64,
        now: Instant,
        work: &mut Work,
    ) -> Result<(), StoreError> {
        match command {
            Command::Submit {
                request,
                attached,
                manifest,
                reply,
            } => {
                let came = Came { attached, manifest };
                let answer = self.submit(request, came, store, at, work)?;
                work.reply(reply, answer);
            }
            Command::Mark {
                target,
                kind,
                reply,
            } => {
                let answer = self.mark(&target, kind, at, work);
                work.reply(reply, answer);
            }
            Command::Host { name, wish, reply } => {
                let answer = self.wish(&name, wish, work);
                work.reply(reply, answer);
            }
            Command::Register {
                record,
                held,
                sender,
                reply,
            } => {
                let answer = self.register(record, &held, sender, at, now, work);
                work.reply(reply, answer);
            }
            Command::Heartbeat {
                host,
                session,
                devices,
            } => self.on_heartbeat(&host, session, &devices, at, now, work),
            Command::Event {
                host,
                session,
                event,
                metrics,
            } => self.on_event(&host, session, &event, metrics, at, now, work),
            Command::CanRehearse { host, session, can } => {
                self.on_can_rehearse(&host, session, can, now, work);
            }
            Command::Rehearsed {
                host,
                session,
                answer,
                unpacked,
            } => self.on_rehearsed(&host, session, answer, unpacked, store, at, now, work),
            Command::Recorded {
                host,
                session,
                recorded,
                unpacked,
                settled,
                reply,
            } => {
                let from = (host.as_str(), session);
                let taken =
                    self.on_recorded(from, &recorded, &unpacked, settled, store, (at, now), work);
                work.reply(reply, Ok(taken));
            }
            Command::Gone { host, session } => self.on_gone(&host, session, work),
            Command::FleetComplete => {
                self.fleet_complete = true;
                work.dirty = true;
            }
            Command::Hold => self.on_hold = true,
            Command::Read(_) | Command::Stop => {}
        }
        Ok(())
    }
}
