//! One session from Hello to its end: what comes from the coordinator goes to the attempts, what comes from the
//! attempts goes out in the order of the spool. The loop never waits for the network, so neither side can block the
//! other; what is under way is bounded by the windows of the attempts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proto::PROTOCOL;
use proto::protocol::{Side, too_far};
use proto::v1::agents_client::AgentsClient;
use proto::v1::{
    AgentMessage, CoordinatorMessage, Event, Heartbeat, Hello, Stop, StopReason, Welcome,
    agent_message, coordinator_message,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::states::states;
use super::{End, Link, Outgoing, Session};
use crate::attempt::Note;
use crate::attempt::facts::Why;
use crate::spool::EventKind;

/// A coordinator that is there answers a Hello at once.
const ANSWER: Duration = Duration::from_secs(10);
const FASTEST_HEARTBEAT: Duration = Duration::from_millis(50);

type Out = mpsc::UnboundedSender<AgentMessage>;

pub(super) async fn talk(
    session: &mut Session,
    mut client: AgentsClient<Channel>,
    welcomed: &mut bool,
) -> End {
    let (out, outgoing) = mpsc::unbounded_channel();
    send(&out, agent_message::Message::Hello(hello(session)));
    let opened = async {
        let stream = client
            .session(UnboundedReceiverStream::new(outgoing))
            .await?;
        let mut stream = stream.into_inner();
        let first = stream.message().await?;
        Ok::<_, Status>((stream, first))
    };
    let (stream, first) = match tokio::time::timeout(ANSWER, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(status)) => return ended_with(&status),
        Err(_) => return End::Lost("the coordinator does not answer".to_owned()),
    };
    use coordinator_message::Message;
    match first.and_then(|first| first.message) {
        Some(Message::Welcome(welcome)) => {
            // One that does not say it is of the first protocol.
            let theirs = welcome.protocol.max(1);
            if let Some(why) = too_far(Side::Coordinator, theirs, &welcome.coordinator_version) {
                return End::Protocol(why);
            }
            *welcomed = true;
            Talk::begin(session, out, welcome).run(stream).await
        }
        Some(Message::Refuse(refuse)) if refuse.reason.contains("speaks protocol") => {
            End::Protocol(refuse.reason)
        }
        Some(Message::Refuse(refuse)) => End::Refused(refuse.reason),
        Some(_) => End::Protocol(
            "its first message is no welcome: upgrade the older of the two".to_owned(),
        ),
        None => End::Lost("the coordinator closed the session".to_owned()),
    }
}

fn hello(session: &Session) -> Hello {
    let mut host = session.config.info();
    for (said, state) in host.devices.iter_mut().zip(states(session)) {
        (said.held_bytes, said.holders) = (state.held_bytes, state.holders);
        (said.missing, said.owner) = (state.missing, state.owner);
    }
    Hello {
        protocol: PROTOCOL,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        spool: session.spool.id().to_owned(),
        host: Some(host),
        attempts: session.attempts.held(),
    }
}

struct Talk<'a> {
    session: &'a mut Session,
    out: Out,
    said: mpsc::UnboundedReceiver<Outgoing>,
    generation: u64,
    heartbeat: Interval,
}

impl<'a> Talk<'a> {
    fn begin(session: &'a mut Session, out: Out, welcome: Welcome) -> Self {
        for attempt in &welcome.drop {
            session.spool.forget(attempt);
            session.attempts.note(attempt, Note::Drop);
        }
        let offsets = welcome.offsets.iter();
        let offsets =
            offsets.map(|offset| ((offset.attempt.clone(), offset.channel()), offset.bytes));
        let offsets: HashMap<_, _> = offsets.collect();
        let (says, said) = mpsc::unbounded_channel();
        let talk = Self {
            session,
            out,
            said,
            generation: welcome.generation,
            heartbeat: heartbeat(welcome.heartbeat_ms),
        };
        let (acked, ready) = talk.session.spool.begin(welcome.acked);
        talk.tell_acked(acked);
        talk.send_events(ready);
        let link = Link {
            out: says,
            offsets: Arc::new(offsets),
        };
        talk.session.links.send_replace(Some(link));
        if let Some(ready) = talk.session.ready.take() {
            let _ = ready.send(());
        }
        tracing::info!(
            generation = welcome.generation,
            "session with the coordinator"
        );
        talk
    }

    async fn run(mut self, mut stream: Streaming<CoordinatorMessage>) -> End {
        let mut seen = self.session.seen.clone();
        seen.mark_unchanged();
        let mut owner = self.session.owner.clone();
        owner.mark_unchanged();
        loop {
            tokio::select! {
                message = stream.message() => match message {
                    Ok(Some(message)) => self.on_message(message),
                    Ok(None) => return End::Lost("the coordinator ended the session".to_owned()),
                    Err(status) => return ended_with(&status),
                },
                Some(outgoing) = self.said.recv() => self.on_said(outgoing),
                _ = self.heartbeat.tick() => self.beat(),
                // At once: a job may be about to be placed on what is not free any more.
                () = changed(&mut seen) => self.beat(),
                () = changed(&mut owner) => self.beat(),
            }
        }
    }

    fn on_message(&mut self, message: CoordinatorMessage) {
        use coordinator_message::Message;
        let attempts = &self.session.attempts;
        match message.message {
            Some(Message::Start(start)) => attempts.start(start, self.generation),
            Some(Message::Stop(stop)) => attempts.note(&stop.attempt, Note::Stop(why(&stop))),
            Some(Message::ChunkAck(ack)) => {
                attempts.note(&ack.attempt, Note::Has(ack.channel(), ack.bytes))
            }
            Some(Message::EventAck(ack)) => {
                let acked = self.session.spool.ack(ack.seq);
                self.tell_acked(acked);
            }
            Some(Message::Rehearse(ask)) => self.session.rehearsals.ask(ask),
            Some(Message::ForgetRehearsal(forget)) => self.session.rehearsals.forget(forget.key),
            Some(Message::RecordedAck(ack)) => {
                self.session.recordings.told(&ack.attempt, ack.note);
            }
            Some(Message::Welcome(_) | Message::Refuse(_)) | None => {
                tracing::debug!("a message that means nothing here");
            }
        }
    }

    fn on_said(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Chunk(chunk) => send(&self.out, agent_message::Message::Chunk(chunk)),
            Outgoing::Event { attempt, event } => {
                let ready = self.session.spool.number(&attempt, event);
                self.send_events(ready);
            }
            Outgoing::Message(message) => send(&self.out, *message),
        }
    }

    fn send_events(&self, events: Vec<Event>) {
        for event in events {
            send(&self.out, agent_message::Message::Event(event));
        }
    }

    fn tell_acked(&self, acked: Vec<(String, EventKind)>) {
        for (attempt, kind) in acked {
            self.session.attempts.note(&attempt, Note::Acked(kind));
        }
    }

    fn beat(&self) {
        let beat = Heartbeat {
            devices: states(self.session),
        };
        send(&self.out, agent_message::Message::Heartbeat(beat));
    }
}

/// For ever where nobody watches.
async fn changed<T>(seen: &mut watch::Receiver<T>) {
    if seen.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn send(out: &Out, message: agent_message::Message) {
    // A session that has ended is noticed by its reader.
    let _ = out.send(AgentMessage {
        message: Some(message),
    });
}

fn heartbeat(ms: u32) -> Interval {
    let pause = Duration::from_millis(ms.into()).max(FASTEST_HEARTBEAT);
    let mut heartbeat = tokio::time::interval(pause);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

fn why(stop: &Stop) -> Why {
    match stop.reason() {
        StopReason::Cancelled | StopReason::Unspecified => Why::Cancelled,
        StopReason::Fenced => Why::Fenced,
        StopReason::Suspended => Why::Suspended,
    }
}

fn ended_with(status: &Status) -> End {
    match status.code() {
        Code::Unimplemented => End::Protocol(
            "it does not know agents: is it a coordinator of sweep? Upgrade it".to_owned(),
        ),
        Code::PermissionDenied | Code::Unauthenticated => End::Refused(status.message().to_owned()),
        _ => End::Lost(status.to_string()),
    }
}
