//! One agent's stream: its hello is handed to the engine, its bytes to the files, its events to the engine. Bytes are
//! on the disk before the event that ends their attempt goes on, so a committed ending has its whole log.
//!
//! Refuses a host that calls itself otherwise than its certificate does, and bytes and events of attempts that are not
//! its own: the session ends with that answer.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::Stream;
use jobs::AttemptId;
use proto::protocol::{Side, too_far};
use proto::said::harmless;
use proto::v1::agent_message::Message;
use proto::v1::agents_server::Agents;
use proto::v1::coordinator_message::Message as Reply;
use proto::v1::{self, AgentMessage, ChunkAck, CoordinatorMessage, Hello, Refuse};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::own::is_itself;
use super::{Api, status};
use crate::engine::{Command, Refusal, Registered, Unpacked};
use crate::store::{Channel, read_log};
use crate::trust::{Caller, audit};

/// A report is read again in pieces: it may be long.
const PIECE: usize = 1 << 20;
/// Bytes of a log count as a word from their host, so often at most: on a slow link heartbeats wait behind them.
const HEARD: Duration = Duration::from_millis(200);

type SessionStream = Pin<Box<dyn Stream<Item = Result<CoordinatorMessage, Status>> + Send>>;

/// A session that has been taken up.
pub(super) struct Session {
    pub(super) api: Api,
    pub(super) host: String,
    pub(super) number: u64,
    to: UnboundedSender<CoordinatorMessage>,
    close: CancellationToken,
    pub(super) caller: Caller,
    /// Attempts that were found to be this host's.
    pub(super) own: Mutex<HashSet<AttemptId>>,
    /// When the engine was last told that bytes come.
    heard: Mutex<Instant>,
}

#[tonic::async_trait]
impl Agents for Api {
    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let caller = Caller::of(request.extensions());
        let mut from = request.into_inner();
        let (to, receiver) = unbounded_channel();
        // What the stream ends with, once nobody has anything more to say over it.
        let (last, at_last) = oneshot::channel::<Status>();
        let api = self.clone();
        tokio::spawn(async move {
            let (host, registered) = match api.greet(&mut from, &to, &caller).await {
                Ok(Some(greeted)) => greeted,
                Ok(None) => return,
                Err(status) => {
                    audit::refused(&caller, "session", status.message());
                    // The agent may have gone already; then there is nobody to tell.
                    let _ = last.send(status);
                    return;
                }
            };
            let session = Session {
                api,
                host,
                number: registered.session,
                to,
                close: registered.close,
                caller,
                own: Mutex::default(),
                heard: Mutex::new(Instant::now()),
            };
            if let Some(status) = session.serve(from).await {
                let _ = last.send(status);
            }
        });
        let ending = futures_util::stream::once(at_last).filter_map(|said| said.ok().map(Err));
        Ok(Response::new(Box::pin(
            UnboundedReceiverStream::new(receiver).map(Ok).chain(ending),
        )))
    }
}

impl Api {
    /// The first message; `None` when the agent was refused or went away.
    async fn greet(
        &self,
        from: &mut Streaming<AgentMessage>,
        to: &UnboundedSender<CoordinatorMessage>,
        caller: &Caller,
    ) -> Result<Option<(String, Registered)>, Status> {
        let mut first = from.message().await.ok().flatten().unwrap_or_default();
        harmless(&mut first);
        let answer = match first.message {
            Some(Message::Hello(hello)) => {
                is_itself(&hello, caller)?;
                self.register(hello, to.clone()).await
            }
            _ => Err(Refusal::Invalid(
                "the first message of a session must be Hello".into(),
            )),
        };
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(refusal) => {
                tracing::warn!(%refusal, "an agent was refused");
                let reason = refusal.to_string();
                // The agent may have gone already; then there is nobody to tell.
                let _ = to.send(reply(Reply::Refuse(Refuse { reason })));
                Ok(None)
            }
        }
    }

    async fn register(
        &self,
        hello: Hello,
        sender: UnboundedSender<CoordinatorMessage>,
    ) -> Result<(String, Registered), Refusal> {
        if let Some(why) = too_far(Side::Agent, hello.protocol, &hello.agent_version) {
            return Err(Refusal::Refused(why));
        }
        let record = proto::convert::host_record(&hello)
            .map_err(|error| Refusal::Invalid(error.to_string()))?;
        let host = record.name.clone();
        let ask = |answer| Command::Register {
            record,
            held: hello.attempts,
            sender,
            reply: answer,
        };
        let registered = self.engine.ask(ask).await?;
        tracing::info!(host, session = registered.session, "agent registered");
        Ok((host, registered))
    }
}

impl Session {
    /// Until it ends; with what the agent is to be told.
    async fn serve(self, mut from: Streaming<AgentMessage>) -> Option<Status> {
        let mut told = None;
        loop {
            let message = tokio::select! {
                message = from.message() => message,
                () = self.close.cancelled() => break,
            };
            match message {
                Ok(Some(message)) => {
                    if let Err(error) = self.take(message).await {
                        // Ending the stream makes the agent dial again and go on from what is here.
                        tracing::warn!(
                            host = self.host,
                            error = error.message(),
                            "the session is ended"
                        );
                        told = Some(error);
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(host = self.host, %error, "the session broke");
                    break;
                }
            }
        }
        tracing::info!(host = self.host, session = self.number, "agent gone");
        self.api.engine.tell(Command::Gone {
            host: self.host,
            session: self.number,
        });
        told
    }

    async fn take(&self, mut message: AgentMessage) -> Result<(), Status> {
        // A session may last for weeks, and its host's certificate be revoked meanwhile.
        if let Some(trust) = &self.api.trust
            && !trust.still_trusts(&self.caller)
        {
            audit::refused(
                &self.caller,
                "session",
                "its certificate was revoked or replaced",
            );
            return Err(Status::unauthenticated(
                "the host's certificate was revoked or replaced",
            ));
        }
        harmless(&mut message);
        match message.message {
            Some(Message::Heartbeat(beat)) => self.api.engine.tell(Command::Heartbeat {
                host: self.host.clone(),
                session: self.number,
                devices: beat.devices,
            }),
            Some(Message::Chunk(chunk)) => {
                self.note_heard();
                self.take_chunk(chunk).await?;
            }
            Some(Message::Event(event)) => self.take_event(event).await?,
            Some(Message::CanRehearse(can)) => self.api.engine.tell(Command::CanRehearse {
                host: self.host.clone(),
                session: self.number,
                can,
            }),
            Some(Message::Rehearsed(answer)) => self.take_rehearsal(answer).await?,
            Some(Message::Recorded(recorded)) => self.take_recorded(recorded).await?,
            Some(Message::Hello(_)) | None => {}
        }
        Ok(())
    }

    fn note_heard(&self) {
        let mut last = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < HEARD {
            return;
        }
        *last = Instant::now();
        self.api.engine.tell(Command::Heartbeat {
            host: self.host.clone(),
            session: self.number,
            devices: Vec::new(),
        });
    }

    /// A stream is unpacked here: the engine has no time for it.
    async fn take_rehearsal(&self, answer: v1::Rehearsed) -> Result<(), Status> {
        let read = move || {
            let unpacked = match answer.error.as_str() {
                "" => Unpacked::read(&answer.stream),
                _ => Err(answer.message.clone()),
            };
            Ok((answer, unpacked))
        };
        let (answer, unpacked) = blocking(read).await?;
        self.api.engine.tell(Command::Rehearsed {
            host: self.host.clone(),
            session: self.number,
            answer,
            unpacked,
        });
        Ok(())
    }

    async fn take_chunk(&self, chunk: v1::Chunk) -> Result<(), Status> {
        let id: AttemptId = chunk
            .attempt
            .parse()
            .map_err(|error: jobs::BadId| Status::invalid_argument(error.to_string()))?;
        let own = self.is_own(&id).await?;
        let wire = chunk.channel;
        let known = match v1::Channel::try_from(wire) {
            Ok(v1::Channel::Log) => Some(Channel::Log),
            Ok(v1::Channel::Report) => Some(Channel::Report),
            Ok(v1::Channel::Unspecified) => {
                return Err(Status::invalid_argument("a chunk of no channel"));
            }
            // Of a newer agent: kept nowhere, and it comes to its end with it.
            Err(_) => None,
        };
        let Some(channel) = known.filter(|_| own) else {
            let bytes = chunk.offset.saturating_add(chunk.data.len() as u64);
            self.acknowledge(chunk.attempt, wire, bytes);
            return Ok(());
        };
        let api = self.api.clone();
        let write = move || -> Result<u64, crate::store::StoreError> {
            let size = {
                let mut files = api.files.lock().unwrap_or_else(PoisonError::into_inner);
                files.append(&id, channel, chunk.offset, &chunk.data)?
            };
            if channel == Channel::Report {
                let whole = |give: &mut dyn FnMut(&[u8])| {
                    let mut at = 0;
                    // What cannot be read is not shown; the file itself is what counts.
                    while let Ok(piece) = read_log(&api.data, &id, channel, at, PIECE) {
                        if piece.is_empty() {
                            break;
                        }
                        at += piece.len() as u64;
                        give(&piece);
                    }
                };
                api.live.take(&id, chunk.offset, &chunk.data, whole);
            }
            Ok(size)
        };
        let bytes = blocking(write).await?;
        self.acknowledge(chunk.attempt, wire, bytes);
        Ok(())
    }

    fn acknowledge(&self, attempt: String, channel: i32, bytes: u64) {
        let ack = ChunkAck {
            attempt,
            channel,
            bytes,
        };
        // A session that has just closed is noticed by its reader.
        let _ = self.to.send(reply(Reply::ChunkAck(ack)));
    }

    async fn take_event(&self, event: v1::Event) -> Result<(), Status> {
        let mut metrics = serde_json::Map::new();
        // An event whose attempt cannot be read is ignored and acknowledged by the engine.
        if let Ok(id) = event.attempt.parse::<AttemptId>() {
            self.is_own(&id).await?;
        }
        if let Some(v1::event::Event::Ended(_)) = &event.event {
            let id: AttemptId = event
                .attempt
                .parse()
                .map_err(|error: jobs::BadId| Status::invalid_argument(error.to_string()))?;
            let api = self.api.clone();
            let sync = move || {
                let mut files = api.files.lock().unwrap_or_else(PoisonError::into_inner);
                files.sync(&id)?;
                files.close(&id)?;
                Ok(api.live.close(&id).unwrap_or_default().metrics)
            };
            metrics = blocking(sync).await?;
        }
        self.api.engine.tell(Command::Event {
            host: self.host.clone(),
            session: self.number,
            event,
            metrics,
        });
        Ok(())
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::store::StoreError> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Status::internal("what it sent could not be worked on"))?;
    done.map_err(|error| status::of_store(&error))
}

fn reply(message: Reply) -> CoordinatorMessage {
    CoordinatorMessage {
        message: Some(message),
    }
}
