//! What is shown of what others sent: lines of the log stay lines, tables and documents have no escape codes in them, a
//! terminal is not driven by a job's output; and who did what has its line.

use proto::v1::agent_message::Message;
use proto::v1::{
    CanRehearse, DeviceInfo, DeviceState, Ended, Event, Heartbeat, HostInfo, coordinator_message,
    event,
};
use serde_json::Value;
use whole::{SOON, until};

use super::{Keeper, info, message};

/// Begins a line, clears the screen, renames the window, turns the writing around.
const EVIL: &str = "x\n2026-01-01 ERROR audit: user eve\u{1b}[2J\u{1b}]0;y\u{7}\u{202e}";

fn evil() -> String {
    EVIL.to_owned()
}

/// Nothing in it drives a terminal; line ends are its own.
#[track_caller]
fn is_plain(what: &str, text: &str) {
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(bad), "{what}: {text:?}");
    assert!(!text.contains("\n2026-01-01 ERROR"), "{what}: {text}");
}

#[test]
fn what_an_agent_says_of_itself_is_shown_plainly() {
    let keeper = Keeper::new();
    let identity = keeper.join(&keeper.join_token(), "box").expect("joins");
    let device = |id: &str, kind: &str| DeviceInfo {
        id: id.into(),
        name: id.into(),
        kind: kind.into(),
        backend: "cpu".into(),
        slots: 1,
        usable_bytes: 1 << 32,
        about: evil(),
        holders: evil(),
        missing: if id == "cpu" { String::new() } else { evil() },
        ..DeviceInfo::default()
    };
    let host = HostInfo {
        devices: vec![
            device("cpu", "cpu"),
            device("odd", "cpu"),
            device("new", "npu\u{1b}[2J"),
        ],
        degraded: vec![evil()],
        rehearsals: 1,
        ..info("box")
    };
    let mut session = keeper.session(Some(identity), host, 5).expect("a session");
    session.next(&keeper).expect("a welcome");
    let say = |what: Message| session.say.send(message(what)).expect("a session");
    say(Message::CanRehearse(CanRehearse {
        why_not: evil(),
        ..CanRehearse::default()
    }));
    let state = |id: &str, missing: String| DeviceState {
        id: id.into(),
        holders: evil(),
        missing,
        ..DeviceState::default()
    };
    let beat = Heartbeat {
        devices: vec![state("cpu", String::new()), state("odd", evil())],
    };
    say(Message::Heartbeat(beat));
    let file = keeper
        .room
        .sweep_file("theirs", "", "[train]\nrun = [\"true\"]");
    let sweep = keeper
        .owner(&["submit", file.to_str().expect("plain text")])
        .word();
    let start = loop {
        match session.next(&keeper).expect("an order") {
            Some(coordinator_message::Message::Start(start)) => break start,
            _ => session
                .say
                .send(message(Message::Heartbeat(Heartbeat::default())))
                .expect("a session"),
        }
    };
    let ended = Ended {
        outcome: "failed".into(),
        detail: evil(),
        ..Ended::default()
    };
    let event = Event {
        seq: 1,
        attempt: start.attempt.clone(),
        event: Some(event::Event::Ended(ended)),
    };
    session
        .say
        .send(message(Message::Event(event)))
        .expect("a session");
    until("its ending is known", SOON, || {
        keeper.owner(&["show", &sweep, "--json"]).json()["sweep"]["state"] == "failed"
    });
    for words in [
        &["hosts"][..],
        &["host", "show", "box"],
        &["history"],
        &["show", &sweep],
        &["why", &start.attempt[..start.attempt.len() - 2]],
    ] {
        is_plain(&words.join(" "), &keeper.owner(words).code(0).out);
        // And in the document, for whoever prints that.
        let document = keeper.owner(&[words, &["--json"]].concat()).json();
        every_text(&document, &mut |text| is_plain(&words.join(" "), text));
    }
    let shown = keeper.owner(&["host", "show", "box", "--json"]).json();
    let degraded = shown["degraded"].to_string();
    assert!(degraded.contains("upgrade the coordinator"), "{degraded}");
    assert_eq!(shown["devices"].as_array().map(Vec::len), Some(2));
    is_plain("its log", &keeper.coordinator.stderr());
}

fn every_text(value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => {
            assert!(!text.contains('\n'), "{text:?}");
            look(text);
        }
        Value::Array(all) => all.iter().for_each(|one| every_text(one, look)),
        Value::Object(all) => all.values().for_each(|one| every_text(one, look)),
        _ => {}
    }
}

#[test]
fn a_jobs_output_drives_no_terminal() {
    let keeper = Keeper::new();
    let _agent = keeper
        .host("rig")
        .agent(&keeper.room, &keeper.coordinator.url);
    let output = "\u{1b}[31mred\u{1b}[0m\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[6n\r\nplain\n";
    keeper.room.file("output", output);
    let stages = "[train]\nrun = [\"sh\", \"-c\", \"cat $ROOM/output\"]";
    let file = keeper.room.sweep_file("loud", "", stages);
    let file = file.to_str().expect("plain text");
    let sweep = keeper.owner(&["submit", file]).word();
    keeper.owner(&["watch", &sweep]).code(0);
    let job = format!("{sweep}/1/train");
    // Into a pipe byte for byte.
    assert_eq!(keeper.owner(&["logs", &job]).code(0).out, output);
    // On a terminal: Python has one to lend.
    let data = keeper.room.data();
    let words = ["--data", data.to_str().expect("plain text"), "logs", &job];
    let sweep_words = keeper.room.command(&words);
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"])
        .arg(sweep_words.get_program())
        .args(sweep_words.get_args())
        .envs(
            sweep_words
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(std::process::Stdio::null());
    for (name, _) in sweep_words.get_envs().filter(|one| one.1.is_none()) {
        command.env_remove(name);
    }
    let said = command.output().expect("python3");
    let shown = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(shown.contains("\u{1b}[31mred\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("^[[2J^[]0;title^G^[[6n"), "{shown:?}");
    assert!(
        !shown.contains("\u{1b}[2J") && !shown.contains("\u{1b}]"),
        "{shown:?}"
    );
}

#[test]
fn who_did_what_has_its_line() {
    let keeper = Keeper::new();
    let token = keeper.user("ann", "admin");
    let _agent = keeper
        .host("rig")
        .agent(&keeper.room, &keeper.coordinator.url);
    let stages = "[train]\nrun = [\"sleep\", \"60\"]";
    let file = keeper.room.sweep_file("long", "", stages);
    let file = file.to_str().expect("plain text");
    let sweep = keeper.with(&token, &["submit", file]).word();
    for words in [
        &["host", "drain", "rig"][..],
        &["host", "resume", "rig"],
        &["cancel", &sweep],
        &["token", "create", "bob", "--role", "read"],
        &["token", "rotate", "bob"],
        &["token", "revoke", "bob"],
    ] {
        keeper.with(&token, words).code(0);
    }
    let said = keeper.coordinator.stderr();
    let by_ann = |what: &str| {
        let mut lines = said.lines();
        lines.any(|line| {
            line.contains("audit: user ann (admin) at 127.0.0.1:") && line.contains(what)
        })
    };
    for what in [
        &format!("submit: {sweep}"),
        "drain: host rig",
        "resume: host rig",
        &format!("cancel: {sweep}"),
        "token created: user bob read",
        "token rotated: user bob read",
        "token revoked: bob",
        "token used: /sweep.v1.Sweeps/Submit",
        "token used: /sweep.v1.Sweeps/Cancel",
        "token used: /sweep.v1.Hosts/DrainHost",
        "token used: /sweep.v1.Trust/RevokeToken",
    ] {
        assert!(by_ann(what), "no `{what}` in\n{said}");
    }
    assert!(!said.contains(&token[6..60]), "{said}");
}
