//! `sweep run` on this machine, killed in the middle and started again with the same words: it is the same sweep, what
//! had ended is not run again, what was running is taken up.

use std::time::Duration;

use whole::{Host, Room, SOON, all_succeeded, attempt_processes, attempts, jobs, until};

const PROGRAM: &str = r#"
echo "$SWEEP_ATTEMPT" >> "$ROOM/ran"
echo "$1 begins"
case "$1" in 3|4) until [ -e "$ROOM/go" ]; do sleep 0.02; done ;; esac
echo "$1 ends"
printf '{"result": {"held_out": 0.%s}}\n' "$1" >> "$SWEEP_REPORT"
"#;

struct Run {
    room: Room,
    words: Vec<String>,
}

impl Run {
    fn new() -> Self {
        let room = Room::new();
        room.program("job.sh", PROGRAM);
        let stages = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";
        let sweep = room.sweep_file("again", "n = [1, 2, 3, 4, 5, 6]", stages);
        let host = Host::new("here", 2).write(&room);
        let path = |path: &std::path::Path| path.to_str().expect("plain text").to_owned();
        let words = [
            "--data",
            &path(&room.data()),
            "run",
            &path(&sweep),
            "--config",
            &path(&host),
            "--json",
        ];
        let words = words.map(str::to_owned).into();
        Self { room, words }
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// The one sweep in the folder.
    fn sweep(&self) -> String {
        let data = self.room.data();
        let listed = self
            .room
            .sweep(&[
                "--data",
                data.to_str().expect("plain text"),
                "list",
                "--json",
            ])
            .json();
        let sweeps = listed["sweeps"].as_array().expect("a list").clone();
        assert_eq!(sweeps.len(), 1, "{listed:#}");
        sweeps[0]["id"].as_str().expect("an id").to_owned()
    }
}

#[test]
fn killed_in_the_middle_it_goes_on_where_it_was() {
    let run = Run::new();
    let mut first = run.room.start(&run.words());
    until("two have ended and two wait", SOON, || {
        run.room.lines("ran").len() == 4 || first.has_ended()
    });
    assert!(!first.has_ended(), "it has ended already");
    let sweep = run.sweep();
    let waiting = format!("{sweep}/3/train/1");
    first.kill9();
    assert!(
        !attempt_processes(&waiting).is_empty(),
        "a killed `run` must not end its attempts"
    );

    // Killed once more, right after it has begun.
    let mut second = run.room.start(&run.words());
    until("it works on the folder", SOON, || {
        run.room.data().join("coordinator.addr").exists()
    });
    second.kill9();

    let third = run.room.start(&run.words());
    run.room.open("go");
    let document = third.finish(Duration::from_secs(60)).json();
    assert_eq!(
        document["sweep"]["id"],
        sweep.as_str(),
        "it is another sweep"
    );
    assert_eq!(document["sweep"]["simulated"], false);
    all_succeeded(&document);
    assert_eq!(
        run.room.lines("ran").len(),
        6,
        "something ran twice: {:?}",
        run.room.lines("ran")
    );
    assert_eq!(run.sweep(), sweep);
}

#[test]
fn interrupted_by_hand_it_suspends_and_goes_on() {
    let run = Run::new();
    let first = run.room.start(&run.words());
    until("two have ended and two wait", SOON, || {
        run.room.lines("ran").len() == 4
    });
    let sweep = run.sweep();
    whole::terminate(first.id());
    let said = first.finish(SOON);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err.contains("suspended") && said.err.contains("sweep run"),
        "{said:?}"
    );
    assert_eq!(said.out, "", "no document of a sweep that has not settled");
    for n in 1..=6 {
        assert!(
            attempt_processes(&format!("{sweep}/{n}/train/1")).is_empty(),
            "job {n} goes on although suspended"
        );
    }

    run.room.open("go");
    let document = run.room.sweep(&run.words()).json();
    assert_eq!(document["sweep"]["id"], sweep.as_str());
    assert_eq!(document["sweep"]["state"], "succeeded");
    let counts: Vec<usize> = jobs(&document)
        .iter()
        .map(|job| attempts(job).len())
        .collect();
    assert_eq!(
        counts,
        [1, 1, 2, 2, 1, 1],
        "only what was suspended runs a second time"
    );
}

#[test]
fn a_settled_sweep_is_not_continued_but_run_anew() {
    let run = Run::new();
    run.room.open("go");
    let first = run.room.sweep(&run.words()).json();
    let second = run.room.sweep(&run.words()).json();
    assert_ne!(first["sweep"]["id"], second["sweep"]["id"]);
    assert_eq!(run.room.lines("ran").len(), 12);
}
