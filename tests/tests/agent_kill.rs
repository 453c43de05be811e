//! Agents and shepherds die with kill -9. Attempts outlive their agent and are adopted; an attempt whose shepherd dies
//! ends with a word for it, leaves no process behind, and is tried again as the sweep says.

use std::collections::BTreeMap;

use whole::{
    Room, SOON, all_succeeded, attempt_processes, attempts, job, kill9, shepherd_of, text, until,
    until_some,
};

const WAITS: &str = r#"
echo $$ > "$ROOM/pid.$1"
echo "first line of $1"
until [ -e "$ROOM/go.$1" ]; do sleep 0.02; done
echo "last line of $1"
printf '{"result": {"n": %s}}\n' "$1" >> "$SWEEP_REPORT"
"#;

fn pid_of(room: &Room, job: u32) -> u32 {
    until_some("the job says its process id", SOON, || {
        let lines = room.lines(&format!("pid.{job}"));
        lines.first()?.parse().ok()
    })
}

#[test]
fn attempts_outlive_their_agent() {
    let room = Room::new();
    room.program("waits.sh", WAITS);
    let run = "[train]\nrun = [\"sh\", \"{kit}/waits.sh\", \"{n}\"]";
    let file = room.sweep_file("outlive", "n = [1, 2, 3]", run);
    let coordinator = room.coordinator();
    let mut agent = room.agent("box", 3, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let before: BTreeMap<u32, u32> = [1, 2, 3].map(|n| (n, pid_of(&room, n))).into();

    agent.kill9();
    // One of them ends while there is no agent.
    room.open("go.1");
    let first = format!("{sweep}/1/train/1");
    until("it ends without an agent", SOON, || {
        agent.attempt(&first).join("ending.json").exists()
    });
    agent.start();
    // And again, twice quickly: adoption must survive being interrupted.
    agent.kill9();
    agent.start();
    for n in [2, 3] {
        let attempt = format!("{sweep}/{n}/train/1");
        assert!(
            attempt_processes(&attempt).contains(&before[&n]),
            "{attempt} is not the same process any more"
        );
        room.open(&format!("go.{n}"));
    }

    let document = coordinator.settled(&room, &sweep);
    all_succeeded(&document);
    for n in [1, 2, 3] {
        let log = coordinator.sweep(&room, &["logs", &format!("{sweep}/{n}/train")]);
        assert_eq!(
            log.code(0).out,
            format!("first line of {n}\nlast line of {n}\n")
        );
        assert_eq!(pid_of(&room, n), before[&n], "it was started again");
    }
}

/// The first attempt starts children that leave its process group, and waits; the second one succeeds.
const LOSES_ITS_SHEPHERD: &str = r#"
case "$SWEEP_ATTEMPT" in
  */1) (setsid sleep 600 &) ; sleep 600 & echo ready; wait ;;
  *) printf '{"result": {}}\n' >> "$SWEEP_REPORT" ;;
esac
"#;

fn with_a_killed_shepherd(retry: &str) -> serde_json::Value {
    let room = Room::new();
    room.program("job.sh", LOSES_ITS_SHEPHERD);
    let run = format!("[train]\nrun = [\"sh\", \"{{kit}}/job.sh\"]\n{retry}");
    let file = room.sweep_file("shepherd", "", &run);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let attempt = format!("{sweep}/1/train/1");
    // The program, its child, and the child that has left the group.
    until("the job and its children run", SOON, || {
        attempt_processes(&attempt).len() >= 3
    });
    kill9(until_some("it has a shepherd", SOON, || {
        shepherd_of(&attempt)
    }));
    until("nothing of it is left", SOON, || {
        attempt_processes(&attempt).is_empty()
    });
    coordinator.settled(&room, &sweep)
}

#[test]
fn a_killed_shepherd_interrupts_its_attempt_which_is_tried_again() {
    let document = with_a_killed_shepherd("");
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    let attempts = attempts(job(&document, "/1/train"));
    let outcomes: Vec<&str> = attempts.iter().map(|one| text(one, "outcome")).collect();
    assert_eq!(outcomes, ["interrupted", "succeeded"], "{document:#}");
    assert!(
        text(attempts[0], "detail").contains("shepherd"),
        "{document:#}"
    );
}

#[test]
fn a_killed_shepherd_is_the_end_where_the_sweep_says_so() {
    let document = with_a_killed_shepherd("[retry]\ninterrupted = 0");
    assert_eq!(document["sweep"]["state"], "failed", "{document:#}");
    assert_eq!(job(&document, "/1/train")["outcome"], "interrupted");
    assert_eq!(attempts(&document).len(), 1);
}

/// Its child has nothing of the attempt in its environment: only the session says whose it is.
const LEAVES_A_BARE_CHILD: &str = "env -i sleep 600 & echo $! > \"$ROOM/bare\"\nwait\n";

#[test]
fn a_child_with_a_clean_environment_goes_with_the_killed_shepherd() {
    let room = Room::new();
    room.program("job.sh", LEAVES_A_BARE_CHILD);
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\"]\n[retry]\ninterrupted = 0";
    let file = room.sweep_file("bare", "", run);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let bare = until_some("the child runs", SOON, || {
        room.lines("bare").first().cloned()
    });
    let place = std::path::PathBuf::from(format!("/proc/{bare}/exe"));
    // It has become `sleep`: its environment is clean by then.
    until("it has begun", SOON, || {
        std::fs::read_link(&place).is_ok_and(|exe| exe.ends_with("sleep"))
    });
    let attempt = format!("{sweep}/1/train/1");
    kill9(until_some("it has a shepherd", SOON, || {
        shepherd_of(&attempt)
    }));
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(job(&document, "/1/train")["outcome"], "interrupted");
    until("the child is gone", SOON, || {
        std::fs::read_link(&place).is_err()
    });
}
