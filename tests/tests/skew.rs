//! Agent and coordinator of neighbouring versions: what an earlier agent said is said to today's coordinator, and today's
//! agent is answered as by an earlier coordinator, byte for byte from recordings of real ones. What a later version will
//! add is ignored; what is further apart is refused with a sentence that says what to upgrade.

mod skewed;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use proto::v1::agent_message::Message as Said;
use proto::v1::coordinator_message::Message as Answer;
use proto::v1::{
    AgentMessage, Channel, Chunk, ChunkAck, CoordinatorMessage, DeviceInfo, Ended, Event,
    Heartbeat, Hello, HostInfo, Start, Stop, Welcome, event,
};
use skewed::raw::{self, Wire};
use skewed::{
    AXES, NAME, STAGES, by_agent, by_coordinator, inside, read, renamed, versions, with_more,
};
use whole::{Agent, Coordinator, Host, Room, SOON, attempts, job, jobs, until};

async fn next(wire: &mut Wire) -> Bytes {
    let next = tokio::time::timeout(Duration::from_secs(30), wire.hear.recv());
    next.await.expect("in time").expect("the session stands")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

fn submit(room: &Room, coordinator: &Coordinator) -> String {
    coordinator.submit(room, &room.sweep_file(NAME, AXES, STAGES))
}

/// The attempt that a message is about.
fn attempt_of(message: &Said) -> Option<&str> {
    match message {
        Said::Chunk(chunk) => Some(&chunk.attempt),
        Said::Event(event) => Some(&event.attempt),
        _ => None,
    }
}

fn is_ending(message: &Said) -> bool {
    matches!(
        message,
        Said::Event(Event {
            event: Some(event::Event::Ended(_)),
            ..
        })
    )
}

/// An agent's place at today's coordinator, and what it was told so far.
struct Seat {
    wire: Wire,
    runtime: tokio::runtime::Runtime,
    begun: BTreeSet<String>,
    stopped: BTreeSet<String>,
    /// Numbers of events that are not acknowledged.
    owed: BTreeSet<u64>,
}

impl Seat {
    fn take(coordinator: &Coordinator, hello: Bytes) -> Self {
        let runtime = runtime();
        let wire = runtime.block_on(raw::dial(&coordinator.url, hello));
        Self {
            wire,
            runtime,
            begun: BTreeSet::new(),
            stopped: BTreeSet::new(),
            owed: BTreeSet::new(),
        }
    }

    fn hear(&mut self) -> Answer {
        let message = by_coordinator(&self.runtime.block_on(next(&mut self.wire)));
        let message = message.message.expect("a message");
        match &message {
            Answer::Start(start) => drop(self.begun.insert(start.attempt.clone())),
            Answer::Stop(stop) => drop(self.stopped.insert(stop.attempt.clone())),
            Answer::EventAck(ack) => drop(self.owed.remove(&ack.seq)),
            _ => {}
        }
        message
    }

    fn say(&self, message: Bytes) {
        self.wire.say.send(message).expect("the session stands");
    }
}

#[test]
fn earlier_agents_work_with_this_coordinator() {
    for version in versions() {
        let room = Room::new();
        let coordinator = room.coordinator();
        let sweep = submit(&room, &coordinator);
        let was = was(&read(&version, "coordinator"));
        let recorded = read(&version, "agent").into_iter();
        let mut recorded = recorded.map(|one| renamed(&one, &was, &sweep));
        let mut seat = Seat::take(&coordinator, recorded.next().expect("a hello"));
        for one in recorded {
            let message = by_agent(&one).message.expect("a message");
            if let Some(attempt) = attempt_of(&message) {
                while !seat.begun.contains(attempt) {
                    seat.hear();
                }
                if is_ending(&message) && attempt.contains("/2/") {
                    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
                    while !seat.stopped.contains(attempt) {
                        seat.hear();
                    }
                }
            }
            if let Said::Event(event) = &message {
                seat.owed.insert(event.seq);
            }
            seat.say(one);
        }
        while !seat.owed.is_empty() {
            seat.hear();
        }
        let document = coordinator.settled(&room, &sweep);
        let [first, second] = ["/1/train", "/2/train"].map(|end| job(&document, end));
        assert_eq!(first["outcome"], "succeeded", "{document:#}");
        assert_eq!(second["outcome"], "cancelled", "{document:#}");
        assert_eq!(attempts(&document).len(), 2, "{document:#}");
        assert_eq!(attempts(first)[0]["result"]["score"], 7, "{first:#}");
        let log = coordinator.sweep(&room, &["logs", &format!("{sweep}/1/train")]);
        assert_eq!(log.code(0).out, "begun\nended\n");
    }
}

/// Today's agent, and what plays its coordinator.
struct Played {
    room: Room,
    agent: Agent,
    wire: Wire,
    runtime: tokio::runtime::Runtime,
    log: Vec<u8>,
}

impl Played {
    fn new() -> Self {
        let (room, runtime) = (Room::new(), runtime());
        let (url, mut sessions) = runtime.block_on(raw::listen());
        let mut agent = Agent::new(&Host::new("box", 1), &room, &url);
        agent.launch();
        let wire = runtime.block_on(async {
            let session = tokio::time::timeout(SOON, sessions.recv()).await;
            session.expect("it dials").expect("a session")
        });
        Self {
            room,
            agent,
            wire,
            runtime,
            log: Vec::new(),
        }
    }

    fn next(&mut self) -> Said {
        let message = by_agent(&self.runtime.block_on(next(&mut self.wire)));
        message.message.expect("a message")
    }

    fn say(&self, message: Bytes) {
        self.wire.say.send(message).expect("the session stands");
    }

    /// Its next event; bytes before it are acknowledged by `ack`.
    fn event(&mut self, ack: impl Fn(&Chunk) -> Option<Bytes>) -> Event {
        loop {
            match self.next() {
                Said::Event(event) => return event,
                Said::Chunk(chunk) => {
                    if chunk.channel() == Channel::Log {
                        self.log.extend(&chunk.data);
                    }
                    if let Some(ack) = ack(&chunk) {
                        self.say(ack);
                    }
                }
                _ => {}
            }
        }
    }
}

fn outcome(event: &Event) -> Option<&str> {
    match &event.event {
        Some(event::Event::Ended(ended)) => Some(&ended.outcome),
        _ => None,
    }
}

#[test]
fn this_agent_works_with_earlier_coordinators() {
    for version in versions() {
        let recorded = read(&version, "coordinator");
        let find = |what: &dyn Fn(&Answer) -> bool| {
            let mut all = recorded.iter();
            let found = all.find(|one| by_coordinator(one).message.is_some_and(|one| what(&one)));
            found.cloned()
        };
        let start = |n: &str| {
            let wanted = format!("/{n}/train/1");
            find(&|one| matches!(one, Answer::Start(start) if start.attempt.ends_with(&wanted)))
        };
        let chunk_ack = |chunk: &Chunk| {
            let bytes = chunk.offset + chunk.data.len() as u64;
            find(&|one| {
                matches!(one, Answer::ChunkAck(ack) if ack.attempt == chunk.attempt
                    && ack.channel == chunk.channel && ack.bytes == bytes)
            })
        };
        let event_ack = |event: &Event| {
            let seq = event.seq;
            find(&|one| matches!(one, Answer::EventAck(ack) if ack.seq == seq))
                .expect("its number was acknowledged")
        };
        let mut played = Played::new();
        assert!(matches!(played.next(), Said::Hello(hello) if hello.protocol == proto::PROTOCOL));
        played.say(find(&|one| matches!(one, Answer::Welcome(_))).expect("a welcome"));
        let mut endings = Vec::new();
        for n in ["1", "2"] {
            played.say(start(n).expect("an order"));
            loop {
                let event = played.event(chunk_ack);
                played.say(event_ack(&event));
                if let Some(outcome) = outcome(&event) {
                    endings.push(outcome.to_owned());
                    break;
                }
                if n == "2" {
                    played.say(find(&|one| matches!(one, Answer::Stop(_))).expect("a stop"));
                }
            }
        }
        assert_eq!(
            endings,
            ["succeeded", "cancelled"],
            "{}",
            played.agent.stderr()
        );
        assert!(
            played.log.starts_with(b"begun\nended\n"),
            "{:?}",
            played.log
        );
        let acked = played
            .agent
            .attempt(&format!("{}/1/train/1", was(&recorded)))
            .join("acked");
        until("the agent knows that all of it arrived", SOON, || {
            acked.exists()
        });
        assert!(played.room.path().exists() && !played.agent.stderr().contains("ERROR"));
    }
}

/// The sweep of a recording.
fn was(recorded: &[Bytes]) -> String {
    let mut starts = recorded
        .iter()
        .filter_map(|one| match by_coordinator(one).message? {
            Answer::Start(start) => Some(start.attempt),
            _ => None,
        });
    let attempt = starts.next().expect("an order");
    attempt.split('/').next().expect("a sweep").to_owned()
}

fn hello(protocol: u32) -> Hello {
    let device = |id: &str, kind: &str| DeviceInfo {
        id: id.into(),
        name: id.into(),
        kind: kind.into(),
        backend: if kind == "cpu" { "cpu" } else { "ink" }.into(),
        usable_bytes: 1 << 32,
        slots: 1,
        ..DeviceInfo::default()
    };
    let host = HostInfo {
        name: "box".into(),
        os: "linux".into(),
        devices: vec![device("cpu", "cpu"), device("quill", "npu")],
        ..HostInfo::default()
    };
    Hello {
        protocol,
        agent_version: format!("0.{protocol}.0"),
        spool: "0198b1d4-0000-7000-8000-000000000000".into(),
        host: Some(host),
        ..Hello::default()
    }
}

#[test]
fn what_a_later_agent_adds_changes_nothing() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let sweep = submit(&room, &coordinator);
    let first = inside(1, &with_more(hello(proto::PROTOCOL + 1)));
    let mut seat = Seat::take(&coordinator, first);
    let Answer::Welcome(welcome) = seat.hear() else {
        panic!("no welcome")
    };
    assert_eq!(welcome.protocol, proto::PROTOCOL);
    let start: Start = loop {
        if let Answer::Start(start) = seat.hear() {
            break start;
        }
    };
    let shown = coordinator
        .sweep(&room, &["host", "show", "box", "--json"])
        .json();
    let degraded = shown["degraded"][0].to_string();
    assert!(
        degraded.contains("quill") && degraded.contains("upgrade the coordinator"),
        "{shown:#}"
    );

    let attempt = start.attempt.clone();
    let chunk = |channel: i32, data: &str| Chunk {
        attempt: attempt.clone(),
        channel,
        offset: 0,
        data: data.into(),
    };
    // A message of a kind that is not known here, one with nothing in it, a heartbeat with more in it than is known.
    seat.say(inside(77, b"\x08\x01"));
    seat.say(Bytes::new());
    seat.say(inside(2, &with_more(Heartbeat::default())));
    seat.say(inside(3, &with_more(chunk(7, "of a channel to come"))));
    seat.say(inside(3, &with_more(chunk(Channel::Log.into(), "log\n"))));
    // An event of a kind to come, and an ending with an outcome to come.
    let event = |seq: u64, event| Event {
        seq,
        attempt: attempt.clone(),
        event,
    };
    seat.say(inside(4, &with_more(event(1, None))));
    let ended = Ended {
        outcome: "evaporated".into(),
        ..Ended::default()
    };
    seat.say(inside(
        4,
        &with_more(event(2, Some(event::Event::Ended(ended)))),
    ));
    let (mut bytes, mut acked) = (Vec::new(), Vec::new());
    while acked.len() < 2 {
        match seat.hear() {
            Answer::ChunkAck(ack) => bytes.push((ack.channel, ack.bytes)),
            Answer::EventAck(ack) => acked.push(ack.seq),
            _ => {}
        }
    }
    assert_eq!((bytes, acked), (vec![(7, 20), (1, 4)], vec![1, 2]));
    let document = coordinator.show(&room, &sweep);
    let first = attempts(&document)[0];
    assert_eq!(first["outcome"], "failed", "{first:#}");
    assert!(
        first["detail"].to_string().contains("evaporated"),
        "{first:#}"
    );
    let log = coordinator.sweep(&room, &["logs", &attempt]);
    assert_eq!(log.code(0).out, "log\n");
}

#[test]
fn what_a_later_coordinator_adds_changes_nothing() {
    let mut played = Played::new();
    assert!(matches!(played.next(), Said::Hello(_)));
    let welcome = Welcome {
        generation: 1,
        heartbeat_ms: 500,
        protocol: proto::PROTOCOL + 1,
        coordinator_version: "9.9.9".into(),
        ..Welcome::default()
    };
    played.say(inside(1, &with_more(welcome)));
    played.say(inside(77, b"\x08\x01"));
    played.say(Bytes::new());
    let id = "later-abcdef/1/train/1";
    let start = Start {
        attempt: id.into(),
        generation: 1,
        devices: vec!["cpu".into()],
        argv: ["sh", "-c", "echo begun; sleep 300"].map(Into::into).into(),
        config: "{}".into(),
        ..Start::default()
    };
    played.say(inside(3, &with_more(start)));
    let ack = |chunk: &Chunk| {
        let ack = ChunkAck {
            attempt: id.into(),
            channel: chunk.channel,
            bytes: chunk.offset + chunk.data.len() as u64,
        };
        Some(inside(5, &with_more(ack)))
    };
    let begun = played.event(ack);
    assert!(matches!(begun.event, Some(event::Event::Started(_))));
    let unknown = ChunkAck {
        attempt: id.into(),
        channel: 7,
        bytes: 1 << 40,
    };
    played.say(inside(5, &with_more(unknown)));
    // A reason that is not known is one to stop all the same.
    let stop = Stop {
        attempt: id.into(),
        reason: 9,
    };
    played.say(inside(4, &with_more(stop)));
    let ended = played.event(ack);
    assert_eq!(outcome(&ended), Some("cancelled"), "{ended:?}");
}

#[test]
fn what_is_too_far_apart_is_told_what_to_upgrade() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let runtime = runtime();
    for (protocol, upgrade) in [(proto::PROTOCOL + 2, "the coordinator"), (0, "the agent")] {
        let first = inside(1, &hello(protocol).encode_to_vec());
        let mut wire = runtime.block_on(raw::dial(&coordinator.url, first));
        let answer = by_coordinator(&runtime.block_on(next(&mut wire)));
        let Some(Answer::Refuse(refuse)) = answer.message else {
            panic!("{answer:?}");
        };
        let wanted = format!("upgrade {upgrade}");
        assert!(refuse.reason.ends_with(&wanted), "{}", refuse.reason);
        assert!(
            refuse
                .reason
                .contains(&format!("speaks protocol {protocol}")),
            "{}",
            refuse.reason
        );
    }
    let hosts = coordinator.sweep(&room, &["hosts", "--json"]).json();
    assert_eq!(hosts["hosts"], serde_json::json!([]));

    let too_new = Welcome {
        protocol: proto::PROTOCOL + 2,
        coordinator_version: "9.9.9".into(),
        ..Welcome::default()
    };
    let refused = proto::v1::Refuse {
        reason: "the agent speaks protocol 1, which is too old: upgrade the agent".into(),
    };
    for (field, answer) in [(1, too_new.encode_to_vec()), (2, refused.encode_to_vec())] {
        let mut played = Played::new();
        played.next();
        played.say(inside(field, &answer));
        assert_eq!(played.agent.ends(), Some(4), "{}", played.agent.stderr());
        let said = played.agent.stderr();
        assert!(
            said.contains("speaks protocol") && said.contains("upgrade the agent"),
            "{said}"
        );
    }
}

/// Passes everything on between a real agent and a real coordinator, and keeps what each said.
#[test]
#[ignore = "writes a recording, with the binary of the version that is to be recorded"]
fn record() {
    let folder = PathBuf::from(std::env::var("SWEEP_RECORD").expect("SWEEP_RECORD names a folder"));
    let folder = whole::project().join(folder);
    let room = Room::new();
    let coordinator = room.coordinator();
    let runtime = runtime();
    let (url, mut sessions) = runtime.block_on(raw::listen());
    let kept = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let (keep, to) = (Arc::clone(&kept), coordinator.url.clone());
    runtime.spawn(async move {
        let Wire { say, mut hear } = sessions.recv().await.expect("a session");
        let first = hear.recv().await.expect("a hello");
        keep.lock().expect("kept").0.push(first.clone());
        let mut there = raw::dial(&to, first).await;
        loop {
            tokio::select! {
                Some(one) = hear.recv() => {
                    keep.lock().expect("kept").0.push(one.clone());
                    let _ = there.say.send(one);
                }
                Some(one) = there.hear.recv() => {
                    keep.lock().expect("kept").1.push(one.clone());
                    let _ = say.send(one);
                }
                else => return,
            }
        }
    });
    let host = Host {
        // Versions before the discovery of GPUs know no `discover`.
        more: "# no recorded_devices\n".into(),
        ..Host::new("box", 1)
    };
    let _agent = host.agent(&room, &url);
    let sweep = submit(&room, &coordinator);
    until("the second runs", SOON, || {
        !whole::attempt_processes(&format!("{sweep}/2/train/1")).is_empty()
    });
    until("its log is here", SOON, || {
        let said = coordinator.sweep(&room, &["logs", &format!("{sweep}/2/train")]);
        said.out == "begun\n"
    });
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(jobs(&document).len(), 2, "{document:#}");
    let (agent, answers) = &*kept.lock().expect("kept");
    skewed::write(&folder, "agent", agent);
    skewed::write(&folder, "coordinator", answers);
    for one in agent {
        println!(
            "agent: {:?}",
            AgentMessage::decode(one.clone()).expect("a message")
        );
    }
    for one in answers {
        println!(
            "coordinator: {:?}",
            CoordinatorMessage::decode(one.clone()).expect("a message")
        );
    }
}
