//! Who gives way to whom on a desktop: Ollama to a job where the host's owner says so, and jobs to the owner. Through
//! a recording of cards and a logind that says what the test wants.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use whole::cards::{card, desk, device, look, show, start, submit, why};
use whole::{Room, SOON, attempts, until};

/// The owner's command, which makes the card show what it showed without Ollama; and where it leaves a word.
fn rule(room: &Room, command: &str) -> String {
    let free = room.file("free.json", &look(&[card(0)], &json!([])));
    let asked = room.path().join("asked");
    let cards = room.path().join("cards.json");
    let script = format!(
        "env > {asked:?}; {}",
        command.replace("FREE", &format!("cp {free:?} {cards:?}"))
    );
    format!(
        "[[evict]]\nprograms = [\"ollama\"]\npatience = \"4s\"\ncommand = [\"sh\", \"-c\", {script:?}]\n"
    )
}

#[test]
fn what_gives_way_counts_as_free_and_is_asked_before_the_job_starts() {
    let room = Room::new();
    show(&room, &[card(5120)]);
    let (coordinator, _agent) = start(&room, &rule(&room, "FREE"));
    let before = device(&coordinator, &room);
    assert_eq!(before["held_mib"], 0.0, "{before:#}");
    assert_eq!(before["holders"], "Ollama 5120 MiB", "it is still said who");
    assert!(
        !room.path().join("asked").exists(),
        "nobody is asked without a job"
    );
    let sweep = submit(&coordinator, &room, "way");
    let document = coordinator.settled(&room, &sweep);
    let all = attempts(&document);
    assert_eq!(all.len(), 1, "{document:#}");
    assert_eq!(all[0]["outcome"], "succeeded", "{document:#}");
    let asked = std::fs::read_to_string(room.path().join("asked")).expect("it was asked");
    assert!(
        !asked.contains("SWEEP_"),
        "nothing of sweep's own reaches it: {asked}"
    );
    until("the card is seen to be free", SOON, || {
        device(&coordinator, &room)["holders"].is_null()
    });
}

#[test]
fn what_a_command_leaves_running_is_not_waited_for() {
    let room = Room::new();
    show(&room, &[card(5120)]);
    let lasts = format!("97.{}", std::process::id());
    let (coordinator, _agent) = start(&room, &rule(&room, &format!("FREE; sleep {lasts} &")));
    let sweep = submit(&coordinator, &room, "leaves");
    let document = coordinator.settled(&room, &sweep);
    let all = attempts(&document);
    assert_eq!(all.len(), 1, "{document:#}");
    assert_eq!(all[0]["outcome"], "succeeded", "{document:#}");
    let left = whole::living(&lasts);
    assert_eq!(left.len(), 1, "what it started on purpose goes on");
    left.into_iter().for_each(whole::kill9);
}

#[test]
fn what_does_not_give_way_holds_the_job_back_and_does_not_fail_it() {
    let room = Room::new();
    show(&room, &[card(5120)]);
    let (coordinator, _agent) = start(&room, &rule(&room, "echo it is in use >&2; exit 3"));
    let sweep = submit(&coordinator, &room, "stays");
    until("it waits for them", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "held_by_others"
    });
    let document = coordinator.show(&room, &sweep);
    let all = attempts(&document);
    assert_eq!(all[0]["outcome"], "suspended", "{document:#}");
    let detail = all[0]["detail"].as_str().expect("a reason");
    assert!(
        detail.contains("held back: ollama did not give the memory")
            && detail.contains("it is in use"),
        "{detail}"
    );
    show(&room, &[card(0)]);
    let document = coordinator.settled(&room, &sweep);
    let last = attempts(&document).last().cloned().expect("an attempt");
    assert_eq!(last["outcome"], "succeeded", "{document:#}");
}

/// A `loginctl` that prints the room's `sessions`.
fn logind(room: &Room) -> (String, String) {
    let sessions = room.path().join("sessions");
    let text = format!(
        "#!/bin/sh\ncase $1 in list-sessions) echo '1 1000 ann seat0';; *) cat {sessions:?};; esac\n"
    );
    let bin = room.path().join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    let program = bin.join("loginctl");
    std::fs::write(&program, text).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").unwrap_or_default();
    ("PATH".to_owned(), format!("{}:{path}", bin.display()))
}

fn session(room: &Room, idle: &str) {
    let text = format!("Class=user\nIdleHint={idle}\nIdleSinceHintMonotonic=1\n");
    let next = room.file("sessions.next", &text);
    std::fs::rename(next, room.path().join("sessions")).expect("the sessions");
}

#[test]
fn nothing_starts_while_the_owner_is_there() {
    let room = Room::new();
    show(&room, &[card(0)]);
    session(&room, "no");
    let coordinator = room.coordinator();
    let mut host = desk(&room, "[owner]\nidle = \"1s\"\n");
    host.env.push(logind(&room));
    let _agent = host.agent(&room, &coordinator.url);
    let sweep = submit(&coordinator, &room, "desktop");
    until("it waits for the owner to go", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "owner_present"
    });
    let said = why(&coordinator, &room, &sweep);
    let reason = said["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("left to its owner: somebody used it less than 1s ago"),
        "{reason}"
    );
    assert_eq!(
        device(&coordinator, &room)["owner"],
        json!("somebody used it less than 1s ago")
    );
    let shown = coordinator.sweep(&room, &["hosts"]);
    assert!(shown.out.contains("is left to its owner"), "{shown:?}");
    // logind does not answer for a while: what was last known counts.
    std::fs::remove_file(room.path().join("sessions")).expect("the sessions");
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert_eq!(why(&coordinator, &room, &sweep)["code"], "owner_present");
    assert!(attempts(&coordinator.show(&room, &sweep)).is_empty());
    session(&room, "yes");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );
    assert!(device(&coordinator, &room)["owner"].is_null());
}

#[test]
fn an_owner_whose_presence_nobody_tells_keeps_no_job_and_is_said() {
    let room = Room::new();
    show(&room, &[card(0)]);
    let coordinator = room.coordinator();
    let mut host = desk(&room, "[owner]\nidle = \"15m\"\n");
    // No session file: loginctl fails.
    host.env.push(logind(&room));
    let _agent = host.agent(&room, &coordinator.url);
    let shown = coordinator
        .sweep(&room, &["host", "show", "desk", "--json"])
        .json();
    let degraded = shown["degraded"][0].as_str().unwrap_or_default();
    assert!(
        degraded.contains("`[owner] idle` cannot be followed"),
        "{shown:#}"
    );
    let sweep = submit(&coordinator, &room, "untold");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );
}
