//! A host that stays away longer than the grace time: its attempt is given up, placed again elsewhere, and what the
//! first one says when it comes back is evidence, never a second result. What still runs there is ended.

use std::time::Duration;

use whole::{Coordinator, Host, Proxy, Room, SOON, attempt_processes, job, until};

const RUN: &str = "[train]\nrun = [\"sh\", \"{kit}/job.sh\"]";
/// The first attempt waits for a gate, the second does not; each leaves its number as its result.
const PROGRAM: &str = "echo \"$SWEEP_ATTEMPT\" >> \"$ROOM/ran\"\n\
    case \"$SWEEP_ATTEMPT\" in *1) until [ -e \"$ROOM/go\" ]; do sleep 0.02; done;; esac\n\
    echo \"{\\\"result\\\": {\\\"attempt\\\": \\\"$SWEEP_ATTEMPT\\\"}}\" >> \"$SWEEP_REPORT\"\n";

struct Lost {
    room: Room,
    coordinator: Coordinator,
    proxy: Proxy,
    sweep: String,
    /// Its agent and the other host's.
    _agents: [whole::Agent; 2],
}

impl Lost {
    /// One attempt runs behind a wire that is cut; the job is placed again on the other host.
    fn new() -> Self {
        let room = Room::new();
        room.program("job.sh", PROGRAM);
        let mut coordinator = Coordinator::prepared(&room, &room.data());
        coordinator.words(&["--grace", "3s", "--heartbeat", "500ms"]);
        coordinator.start_again();
        let proxy = Proxy::to(&coordinator.url);
        let away = Host::new("away", 1).agent(&room, &proxy.url);
        let file = room.sweep_file("lost", "", RUN);
        let sweep = coordinator.submit(&room, &file);
        until("the first attempt runs", SOON, || {
            !attempt_processes(&format!("{sweep}/1/train/1")).is_empty()
        });
        let near = Host::new("near", 1).agent(&room, &coordinator.url);
        proxy.cut();
        Self {
            room,
            coordinator,
            proxy,
            sweep,
            _agents: [away, near],
        }
    }

    fn job(&self) -> serde_json::Value {
        let document = self.coordinator.show(&self.room, &self.sweep);
        job(&document, "train").clone()
    }

    fn until_placed_again(&self) {
        until("the job is done elsewhere", SOON, || {
            self.job()["outcome"] == "succeeded"
        });
        let job = self.job();
        assert_eq!(job["attempts"][0]["outcome"], "host_lost", "{job:#}");
        assert_eq!(job["attempts"][1]["host"], "near", "{job:#}");
    }
}

#[test]
fn a_late_result_is_evidence_and_never_counts() {
    let lost = Lost::new();
    lost.room.open("go");
    lost.until_placed_again();
    lost.proxy.mend();
    until("the late word is kept", SOON, || {
        lost.job()["attempts"][0]["late"] == true
    });
    let job = lost.job();
    assert_eq!(job["attempts"][0]["outcome"], "host_lost", "{job:#}");
    let results = lost
        .coordinator
        .sweep(&lost.room, &["results", &lost.sweep, "--json"])
        .json();
    let counted = results["rows"][0]["result"]["attempt"].to_string();
    assert!(
        counted.contains("/train/2") || counted == "\"2\"",
        "{results:#}"
    );
}

#[test]
fn what_still_runs_on_a_lost_host_is_ended_when_it_returns() {
    let lost = Lost::new();
    lost.until_placed_again();
    let first = format!("{}/1/train/1", lost.sweep);
    assert!(
        !attempt_processes(&first).is_empty(),
        "nobody could end it yet"
    );
    lost.proxy.mend();
    until(
        "the fenced attempt is ended",
        Duration::from_secs(60),
        || attempt_processes(&first).is_empty(),
    );
    assert_eq!(lost.job()["outcome"], "succeeded");
}

#[test]
fn an_agent_that_was_frozen_learns_that_it_was_given_up() {
    let room = Room::new();
    room.program("job.sh", PROGRAM);
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    coordinator.words(&["--grace", "2s", "--heartbeat", "500ms"]);
    coordinator.start_again();
    let agent = Host::new("frozen", 1).agent(&room, &coordinator.url);
    let file = room.sweep_file("frozen", "", RUN);
    let sweep = coordinator.submit(&room, &file);
    let first = format!("{sweep}/1/train/1");
    until("the first attempt runs", SOON, || {
        !attempt_processes(&first).is_empty()
    });
    // Its connection stands all the while.
    agent.freeze();
    until("it is given up", SOON, || {
        let document = coordinator.show(&room, &sweep);
        job(&document, "train")["attempts"][0]["outcome"] == "host_lost"
    });
    agent.thaw();
    until(
        "the first is ended and the second done",
        Duration::from_secs(60),
        || {
            let document = coordinator.show(&room, &sweep);
            job(&document, "train")["outcome"] == "succeeded"
                && attempt_processes(&first).is_empty()
        },
    );
}

#[test]
fn nothing_is_placed_beside_an_attempt_that_was_given_up_and_still_runs() {
    let room = Room::new();
    // The first attempt is deaf: it holds its device for the whole time that it is given to end.
    let deaf =
        "case \"$SWEEP_ATTEMPT\" in *1) trap '' TERM; while true; do sleep 0.1; done;; esac\n";
    room.program("job.sh", deaf);
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    coordinator.words(&["--grace", "2s", "--heartbeat", "500ms"]);
    coordinator.start_again();
    let mut agent = Host::new("box", 1).agent(&room, &coordinator.url);
    let file = room.sweep_file("deaf", "", RUN);
    let sweep = coordinator.submit(&room, &file);
    let first = format!("{sweep}/1/train/1");
    until("the first attempt runs", SOON, || {
        !attempt_processes(&first).is_empty()
    });
    agent.kill9();
    let attempts = || {
        let document = coordinator.show(&room, &sweep);
        job(&document, "train")["attempts"]
            .as_array()
            .map_or(0, Vec::len)
    };
    until("it is given up", SOON, || {
        let document = coordinator.show(&room, &sweep);
        job(&document, "train")["attempts"][0]["outcome"] == "host_lost"
    });
    agent.start();
    until("the second is placed", Duration::from_secs(60), || {
        attempts() == 2
    });
    assert!(
        attempt_processes(&first).is_empty(),
        "two attempts on one slot"
    );
}
