//! Attacks of those who would be a host, or another host than they are.

use std::time::Duration;

use proto::v1::agent_message::Message;
use proto::v1::{Channel, Chunk, DeviceInfo, Ended, Event, HostInfo, coordinator_message, event};
use tonic::Code;
use whole::{SOON, all_succeeded, until};

use super::{JOB, Keeper, foreign_token, info, message};

#[test]
fn a_join_token_lets_one_host_in_once_and_not_for_ever() {
    let keeper = Keeper::new();
    let token = keeper.join_token();
    keeper.join(&token, "box").expect("joins");
    let short = keeper
        .owner(&["token", "create", "--join", "--expires", "1s"])
        .word();
    let bound = keeper
        .owner(&["token", "create", "--join", "--host", "rig"])
        .word();
    let user = keeper.user("ann", "admin");
    std::thread::sleep(Duration::from_millis(1100));
    for (what, token, host, code) in [
        ("used", &token, "rig", Code::Unauthenticated),
        ("used, another key", &token, "box", Code::Unauthenticated),
        ("expired", &short, "rig", Code::Unauthenticated),
        ("for another host", &bound, "box", Code::PermissionDenied),
        ("a user's", &user, "rig", Code::Unauthenticated),
        (
            "of another coordinator",
            &foreign_token(),
            "rig",
            Code::Unauthenticated,
        ),
        (
            "no token",
            &"hunter2".to_owned(),
            "rig",
            Code::Unauthenticated,
        ),
        (
            "a name of two lines",
            &bound,
            "rig\nERROR",
            Code::InvalidArgument,
        ),
    ] {
        let status = keeper.join(token, host).expect_err(what);
        assert_eq!(status.code(), code, "{what}: {status}");
        assert!(!status.message().contains(&token[..]), "{what}: {status}");
        assert!(!status.message().contains('\n'), "{what}: {status}");
    }
    // An agent says so, and ends: waiting does not help.
    let mut host = keeper.host("late");
    host.env = vec![("SWEEP_JOIN_TOKEN".into(), token)];
    let mut agent = whole::Agent::new(&host, &keeper.room, &keeper.coordinator.url);
    assert_eq!(agent.start_in_vain(), Some(4));
    assert!(
        agent.stderr().contains("used already"),
        "{}",
        agent.stderr()
    );
    // A token of another coordinator is not even shown to this one.
    host.env = vec![("SWEEP_JOIN_TOKEN".into(), foreign_token())];
    let mut agent = whole::Agent::new(&host, &keeper.room, &keeper.coordinator.url);
    assert_eq!(agent.start_in_vain(), Some(4));
    assert!(
        agent.stderr().contains("failed to trust"),
        "{}",
        agent.stderr()
    );
    // Lines of the log stay lines.
    let said = keeper.coordinator.stderr();
    assert!(
        said.contains("rig\\nERROR") && !said.contains("\nERROR"),
        "{said}"
    );
}

#[test]
fn a_host_speaks_for_itself_only() {
    let keeper = Keeper::new();
    let _rig = keeper
        .host("rig")
        .agent(&keeper.room, &keeper.coordinator.url);
    let token = keeper.user("ann", "submit");
    let file = keeper.room.sweep_file("mine", "", JOB);
    let sweep = keeper
        .with(&token, &["submit", file.to_str().expect("plain text")])
        .word();
    until("the job begins", SOON, || {
        keeper.room.path().join("begun").exists()
    });
    let identity = keeper.join(&keeper.join_token(), "box").expect("joins");
    let session = |host: HostInfo| {
        keeper
            .session(Some(identity.clone()), host, 5)
            .expect("a session")
    };

    let status = session(info("rig")).end(&keeper);
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");

    let attempt = format!("{sweep}/1/train/1");
    let chunk = |attempt: &str| {
        Message::Chunk(Chunk {
            attempt: attempt.into(),
            channel: Channel::Log.into(),
            offset: 0,
            data: b"forged\n".to_vec(),
        })
    };
    let ending = Message::Event(Event {
        seq: 1,
        attempt: attempt.clone(),
        event: Some(event::Event::Ended(Ended {
            outcome: "succeeded".into(),
            result: "{\"score\": 1}".into(),
            ..Ended::default()
        })),
    });
    for (what, report) in [
        ("another's log", chunk(&attempt)),
        ("another's ending", ending),
    ] {
        let mut session = session(info("box"));
        let first = session.next(&keeper).expect("a welcome");
        assert!(
            matches!(first, Some(coordinator_message::Message::Welcome(_))),
            "{first:?}"
        );
        session.say.send(message(report)).expect("a session");
        let status = session.end(&keeper);
        assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status}");
    }
    // What is said of an attempt that nobody knows, as after a restore, comes to its end and is kept nowhere.
    let to_come = format!("{sweep}/1/train/2");
    let mut early = session(info("box"));
    early.next(&keeper).expect("a welcome");
    early.say.send(message(chunk(&to_come))).expect("a session");
    let taken = loop {
        if let Some(coordinator_message::Message::ChunkAck(ack)) =
            early.next(&keeper).expect("an answer")
        {
            break ack;
        }
    };
    assert_eq!((&taken.attempt, taken.bytes), (&to_come, 7));
    drop(early);
    keeper.with(&token, &["logs", &to_come]).code(2);
    // A device that would paint on everybody's terminal.
    let device = DeviceInfo {
        id: "cpu".into(),
        name: "\u{1b}[2Jcpu".into(),
        kind: "cpu".into(),
        backend: "cpu".into(),
        ..DeviceInfo::default()
    };
    let host = HostInfo {
        devices: vec![device],
        ..info("box")
    };
    let answer = session(host).next(&keeper).expect("an answer");
    let Some(coordinator_message::Message::Refuse(refuse)) = answer else {
        panic!("not refused: {answer:?}");
    };
    assert!(!refuse.reason.contains('\u{1b}'), "{refuse:?}");

    // A session of a host whose certificate is revoked ends with the next word.
    let mut last = session(info("box"));
    last.next(&keeper).expect("a welcome");
    keeper.owner(&["token", "revoke", "--host", "box"]).code(0);
    last.say
        .send(message(Message::Heartbeat(proto::v1::Heartbeat::default())))
        .expect("a session");
    assert_eq!(last.end(&keeper).code(), Code::Unauthenticated);

    keeper.room.open("go");
    all_succeeded(&keeper.with(&token, &["watch", &sweep, "--json"]).json());
    let log = keeper.with(&token, &["logs", &attempt]);
    assert_eq!(log.code(0).out, "ended\n");
}
