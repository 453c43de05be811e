//! Cancelling at every moment: while jobs are being placed, while they run, while their agent is away, and a whole
//! sweep. What is cancelled ends so, with no process left, and what had succeeded stays so.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use whole::{Random, Room, SOON, attempt_processes, attempts, job, jobs, text, until};

const FOR_EVER: &str = "echo ready\nsleep 600 &\nwait\n";
const RUN: &str = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";

#[track_caller]
fn nothing_lives(document: &Value) {
    for attempt in attempts(document) {
        let id = text(attempt, "id");
        let left = attempt_processes(id);
        assert!(
            left.is_empty(),
            "{id} has ended as {}, but {left:?} live on",
            attempt["outcome"]
        );
    }
}

#[test]
fn a_running_job_is_cancelled_and_the_others_go_on() {
    let room = Room::new();
    room.program("job.sh", "if [ $1 = 1 ]; then sleep 600 & wait; fi\nuntil [ -e \"$ROOM/go\" ]; do sleep 0.02; done\n");
    let file = room.sweep_file("one", "n = [1, 2]", RUN);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 2, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let first = format!("{sweep}/1/train");
    until("both run", SOON, || {
        [1, 2]
            .iter()
            .all(|n| !attempt_processes(&format!("{sweep}/{n}/train/1")).is_empty())
    });
    let said = coordinator
        .sweep(&room, &["cancel", &first, "--json"])
        .json();
    assert_eq!(said["jobs"], serde_json::json!([first]));
    until("it is gone", SOON, || {
        attempt_processes(&format!("{first}/1")).is_empty()
    });
    room.open("go");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(job(&document, "/1/train")["outcome"], "cancelled");
    assert_eq!(
        attempts(job(&document, "/1/train"))[0]["outcome"],
        "cancelled"
    );
    assert_eq!(job(&document, "/2/train")["outcome"], "succeeded");
    assert_eq!(
        (
            document["sweep"]["state"].as_str(),
            document["summary"]["exit_code"].as_u64()
        ),
        (Some("cancelled"), Some(1))
    );
}

#[test]
fn cancelled_while_jobs_are_being_placed() {
    let room = Room::new();
    let mut random = Random::seeded();
    room.program("job.sh", FOR_EVER);
    let numbers: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
    let file = room.sweep_file("placing", &format!("n = [{}]", numbers.join(", ")), RUN);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 40, &coordinator.url);
    for _ in 0..5 {
        let sweep = coordinator.submit(&room, &file);
        // Somewhere between the first order and the last start.
        random.moment(Duration::from_millis(300));
        let cancelled = coordinator
            .sweep(&room, &["cancel", &sweep, "--json"])
            .json();
        assert_eq!(
            cancelled["jobs"].as_array().map(Vec::len),
            Some(40),
            "{cancelled:#}"
        );
        let document = coordinator.settled(&room, &sweep);
        assert_eq!(document["sweep"]["state"], "cancelled");
        for job in jobs(&document) {
            assert_eq!(job["outcome"], "cancelled", "{job:#}");
            assert!(
                attempts(job)
                    .iter()
                    .all(|one| one["outcome"] == "cancelled"),
                "{job:#}"
            );
        }
        nothing_lives(&document);
    }
    let hosts = coordinator.sweep(&room, &["hosts", "--json"]).json();
    assert_eq!(
        hosts["hosts"][0]["attempts"],
        serde_json::json!([]),
        "the host still counts attempts"
    );
    assert_eq!(
        hosts["hosts"][0]["devices"][0]["reserved_mib"], 0.0,
        "memory is still reserved"
    );
}

#[test]
fn cancelled_while_the_agent_is_away() {
    let room = Room::new();
    room.program("job.sh", FOR_EVER);
    let file = room.sweep_file("away", "n = [1, 2, 3]", RUN);
    let mut coordinator = room.coordinator();
    let mut agent = room.agent("box", 2, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let running = [1, 2].map(|n| format!("{sweep}/{n}/train/1"));
    until("two of them run", SOON, || {
        running.iter().all(|id| !attempt_processes(id).is_empty())
    });
    agent.kill9();
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
    // The user's word survives the coordinator too.
    coordinator.kill9();
    coordinator.start_again();
    assert!(
        running.iter().all(|id| !attempt_processes(id).is_empty()),
        "nobody could have told them"
    );
    agent.start();
    let document = coordinator.settled(&room, &sweep);
    let outcomes: BTreeSet<&str> = jobs(&document)
        .iter()
        .map(|job| text(job, "outcome"))
        .collect();
    assert_eq!(outcomes, ["cancelled"].into(), "{document:#}");
    assert_eq!(
        attempts(&document).len(),
        2,
        "the third one was started after it was cancelled"
    );
    nothing_lives(&document);
}

#[test]
fn a_cancelled_sweep_keeps_what_had_succeeded_and_can_be_retried() {
    let room = Room::new();
    let program = "if [ $1 = 2 ] && [ ! -e \"$ROOM/again\" ]; then sleep 600 & wait; fi\n\
        printf '{\"result\": {\"n\": %s}}\\n' $1 >> \"$SWEEP_REPORT\"\n";
    room.program("job.sh", program);
    let file = room.sweep_file("keeps", "n = [1, 2, 3]", RUN);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    until("the second one runs", SOON, || {
        !attempt_processes(&format!("{sweep}/2/train/1")).is_empty()
    });
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
    let document = coordinator.settled(&room, &sweep);
    let outcomes: Vec<&str> = jobs(&document)
        .iter()
        .map(|job| text(job, "outcome"))
        .collect();
    assert_eq!(
        outcomes,
        ["succeeded", "cancelled", "cancelled"],
        "{document:#}"
    );
    // A second cancel finds nothing to do, and says so without harm.
    let again = coordinator.sweep(&room, &["cancel", &sweep, "--json"]);
    assert!(matches!(again.code, Some(0 | 4)), "{again:?}");

    room.open("again");
    coordinator.sweep(&room, &["retry", &sweep]).code(0);
    let document = coordinator.settled(&room, &sweep);
    let counts: Vec<usize> = jobs(&document)
        .iter()
        .map(|job| attempts(job).len())
        .collect();
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    assert_eq!(
        counts,
        [1, 2, 1],
        "what had succeeded ran again, or something was not retried"
    );
}
