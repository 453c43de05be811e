//! A coordinator for tests: keeps what an agent says, checks the rules of the stream, answers as told.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use proto::v1::agents_server::{Agents, AgentsServer};
use proto::v1::{
    AgentMessage, CanRehearse, Channel, Chunk, ChunkAck, CoordinatorMessage, Ended, Event,
    EventAck, Hello, Offset, Recorded, RecordedAck, Refuse, Rehearsed, Start, Stop, StopReason,
    Welcome, agent_message, coordinator_message, event,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

type Answer = Result<CoordinatorMessage, Status>;
type Answers = Pin<Box<dyn Stream<Item = Answer> + Send>>;

/// Everything it knows and how it behaves.
#[derive(Default)]
pub struct Kept {
    pub hellos: Vec<Hello>,
    pub events: Vec<Event>,
    /// With each session that it was told in.
    pub can_rehearse: Vec<CanRehearse>,
    pub rehearsed: Vec<Rehearsed>,
    pub recorded: Vec<Recorded>,
    /// Says nothing of the streams that it gets.
    pub keeps_streams: bool,
    pub bytes: BTreeMap<(String, i32), Vec<u8>>,
    pub acked: u64,
    pub generation: u64,
    pub heartbeats: usize,
    pub drop: Vec<String>,
    pub broken_rules: Vec<String>,
    /// Refuses sessions with this reason.
    pub refuse: Option<String>,
    /// No session at all.
    pub down: bool,
    /// Keeps events to itself instead of applying them.
    pub deaf: bool,
    out: Option<mpsc::UnboundedSender<Answer>>,
}

#[derive(Clone, Default)]
pub struct Coordinator(Arc<Mutex<Kept>>);

impl Coordinator {
    pub async fn serve() -> (Self, String) {
        let coordinator = Self::default();
        coordinator.kept().generation = 1;
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = AgentsServer::new(coordinator.clone()).max_decoding_message_size(64 << 20);
        let server = tonic::transport::Server::builder().add_service(service);
        // A server that is given its listener ignores its own setting for this; without it small answers wait for
        // each other by tens of milliseconds.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(server.serve_with_incoming(incoming));
        (coordinator, address)
    }

    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    /// Ends the session of now.
    pub fn cut(&self) {
        self.kept().out = None;
    }

    pub fn say(&self, message: coordinator_message::Message) {
        let message = CoordinatorMessage {
            message: Some(message),
        };
        self.kept()
            .out
            .as_ref()
            .expect("a session")
            .send(Ok(message))
            .unwrap();
    }

    pub fn start(&self, attempt: &str, script: &str) -> Start {
        let start = Start {
            attempt: attempt.into(),
            generation: self.kept().generation,
            devices: vec!["cpu".into()],
            // Doubled braces are plain ones.
            argv: vec![
                "/bin/sh".into(),
                "-c".into(),
                script.replace('{', "{{").replace('}', "}}"),
            ],
            config: "{\"rank\": 8}".into(),
            seed: 7,
            ..Start::default()
        };
        self.say(coordinator_message::Message::Start(start.clone()));
        start
    }

    pub fn stop(&self, attempt: &str, reason: StopReason) {
        let stop = Stop {
            attempt: attempt.into(),
            reason: reason.into(),
        };
        self.say(coordinator_message::Message::Stop(stop));
    }

    pub fn ended(&self, attempt: &str) -> Option<Ended> {
        self.endings(attempt).into_iter().next()
    }

    /// More than one would be a broken promise.
    pub fn endings(&self, attempt: &str) -> Vec<Ended> {
        let kept = self.kept();
        let of = kept.events.iter().filter(|event| event.attempt == attempt);
        let ended = of.filter_map(|event| match &event.event {
            Some(event::Event::Ended(ended)) => Some(ended.clone()),
            _ => None,
        });
        ended.collect()
    }

    pub async fn until(&self, what: &str, mut check: impl FnMut(&Kept) -> bool) {
        for _ in 0..3000 {
            if check(&self.kept()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came true: {what}");
    }

    pub async fn until_ended(&self, attempt: &str) -> Ended {
        for _ in 0..3000 {
            if let Some(ended) = self.ended(attempt) {
                return ended;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{attempt} never ended");
    }

    pub fn log(&self, attempt: &str) -> Vec<u8> {
        let key = (attempt.to_owned(), Channel::Log.into());
        self.kept().bytes.get(&key).cloned().unwrap_or_default()
    }

    fn welcome(&self, hello: Hello) -> coordinator_message::Message {
        let mut kept = self.kept();
        if let Some(reason) = kept.refuse.clone() {
            return coordinator_message::Message::Refuse(Refuse { reason });
        }
        let held: BTreeSet<String> = hello
            .attempts
            .iter()
            .map(|held| held.attempt.clone())
            .collect();
        kept.hellos.push(hello);
        let offset = |((attempt, channel), bytes): (&(String, i32), &Vec<u8>)| Offset {
            attempt: attempt.clone(),
            channel: *channel,
            bytes: bytes.len() as u64,
        };
        coordinator_message::Message::Welcome(Welcome {
            generation: kept.generation,
            heartbeat_ms: 100,
            drop: kept.drop.clone(),
            offsets: kept
                .bytes
                .iter()
                .filter(|(key, _)| held.contains(&key.0))
                .map(offset)
                .collect(),
            acked: kept.acked,
            ..Welcome::default()
        })
    }

    fn on_message(&self, message: AgentMessage) -> Option<coordinator_message::Message> {
        match message.message? {
            agent_message::Message::Chunk(chunk) => self.on_chunk(&chunk),
            agent_message::Message::Event(event) => self.on_event(event),
            agent_message::Message::Heartbeat(_) => {
                self.kept().heartbeats += 1;
                None
            }
            agent_message::Message::CanRehearse(can) => {
                self.kept().can_rehearse.push(can);
                None
            }
            agent_message::Message::Rehearsed(answer) => {
                self.kept().rehearsed.push(answer);
                None
            }
            agent_message::Message::Recorded(recorded) => self.on_recorded(recorded),
            agent_message::Message::Hello(_) => panic!("a second hello"),
        }
    }

    fn on_recorded(&self, recorded: Recorded) -> Option<coordinator_message::Message> {
        let mut kept = self.kept();
        let is_ending = |event: &Event| matches!(event.event, Some(event::Event::Ended(_)));
        let mut endings = kept.events.iter().filter(|event| is_ending(event));
        if !endings.any(|event| event.attempt == recorded.attempt) {
            let text = format!("a stream of {} before its ending", recorded.attempt);
            kept.broken_rules.push(text);
        }
        let attempt = recorded.attempt.clone();
        kept.recorded.push(recorded);
        let note = "kept".to_owned();
        let ack = RecordedAck { attempt, note };
        (!kept.keeps_streams).then_some(coordinator_message::Message::RecordedAck(ack))
    }

    fn on_chunk(&self, chunk: &Chunk) -> Option<coordinator_message::Message> {
        let mut kept = self.kept();
        let bytes = kept
            .bytes
            .entry((chunk.attempt.clone(), chunk.channel))
            .or_default();
        let gap = chunk.offset as usize != bytes.len();
        bytes.extend_from_slice(&chunk.data);
        let written = bytes.len() as u64;
        if gap {
            kept.broken_rules
                .push(format!("a gap in {}", chunk.attempt));
        }
        Some(coordinator_message::Message::ChunkAck(ChunkAck {
            attempt: chunk.attempt.clone(),
            channel: chunk.channel,
            bytes: written,
        }))
    }

    fn on_event(&self, event: Event) -> Option<coordinator_message::Message> {
        let mut kept = self.kept();
        if kept.deaf {
            return None;
        }
        if let Some(event::Event::Ended(ended)) = &event.event {
            let key = (event.attempt.clone(), Channel::Log.into());
            let written = kept.bytes.get(&key).map_or(0, Vec::len) as u64;
            if written != ended.log_bytes {
                kept.broken_rules.push(format!(
                    "{} ended before its bytes were here",
                    event.attempt
                ));
            }
        }
        let seq = event.seq;
        if seq > kept.acked {
            kept.acked = seq;
            kept.events.push(event);
        }
        Some(coordinator_message::Message::EventAck(EventAck { seq }))
    }
}

#[tonic::async_trait]
impl Agents for Coordinator {
    type SessionStream = Answers;

    async fn session(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Answers>, Status> {
        if self.kept().down {
            return Err(Status::unavailable("down"));
        }
        let mut stream = request.into_inner();
        let (out, answers) = mpsc::unbounded_channel();
        let weak = out.downgrade();
        self.kept().out = Some(out);
        let coordinator = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let answer = match message.message {
                    Some(agent_message::Message::Hello(hello)) => Some(coordinator.welcome(hello)),
                    message => coordinator.on_message(AgentMessage { message }),
                };
                // Gone once the test has cut the session: what still comes in is lost.
                let Some(out) = weak.upgrade() else { return };
                if let Some(message) = answer {
                    let _ = out.send(Ok(CoordinatorMessage {
                        message: Some(message),
                    }));
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            answers,
        ))))
    }
}
