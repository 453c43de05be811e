//! Draining a host: nothing new starts there, what runs goes on, and `--wait` returns when nothing runs any more.

use serde_json::json;
use whole::{Room, SOON, all_succeeded, attempt_processes, until};

#[test]
fn a_drain_that_waits_returns_when_the_last_attempt_has_ended() {
    let room = Room::new();
    room.program(
        "job.sh",
        "until [ -e \"$ROOM/go.$1\" ]; do sleep 0.02; done\n",
    );
    let file = room.sweep_file(
        "drained",
        "n = [1, 2]",
        "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]",
    );
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    until("the first runs", SOON, || {
        !attempt_processes(&format!("{sweep}/1/train/1")).is_empty()
    });
    let words = ["host", "drain", "box", "--wait", "--json"];
    let mut drain = coordinator.start_sweep(&room, &words);
    until("the host is drained", SOON, || {
        let shown = coordinator.sweep(&room, &["host", "show", "box", "--json"]);
        shown.json()["drained"] == true
    });
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(!drain.has_ended(), "an attempt runs");
    room.open("go.1");
    let said = drain.finish(SOON).json();
    assert_eq!(
        (&said["drained"], &said["attempts"]),
        (&json!(true), &json!([]))
    );
    let why = coordinator.sweep(&room, &["why", &format!("{sweep}/2/train"), "--json"]);
    assert_eq!(why.json()["code"], "drained");
    room.open("go.2");
    coordinator.sweep(&room, &["host", "resume", "box"]).code(0);
    all_succeeded(&coordinator.settled(&room, &sweep));
}
