//! Jobs that behave badly: deaf to SIGTERM, with children that run away, missing, or talking nonsense. Each ends with
//! the right word and a sentence that helps, and nothing of it lives on.

use serde_json::Value;
use whole::{Coordinator, Room, attempt_processes, attempts, job, text};

/// Runs one job to its end on a host of its own; the room and the coordinator are there to be asked.
fn run(program: &str, stage: &str) -> (Room, Coordinator, Value) {
    let room = Room::new();
    room.program("job.sh", program);
    let file = room.sweep_file("ending", "", stage);
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let document = coordinator.settled(&room, &sweep);
    let left = attempt_processes(&format!("{sweep}/1/train/1"));
    assert!(left.is_empty(), "processes {left:?} of the job live on");
    (room, coordinator, document)
}

const STAGE: &str = "[train]\nrun = [\"sh\", \"{kit}/job.sh\"]";

#[track_caller]
fn attempt(document: &Value) -> &Value {
    let attempts = attempts(job(document, "/1/train"));
    assert_eq!(attempts.len(), 1, "{document:#}");
    attempts[0]
}

#[test]
fn a_job_that_ignores_sigterm_ends_at_its_time_limit() {
    let deaf =
        "trap '' TERM\n(trap '' TERM; while :; do sleep 1; done) &\nwhile :; do sleep 1; done\n";
    let (_room, _coordinator, document) = run(deaf, &format!("{STAGE}\ntime_limit = \"1s\""));
    let attempt = attempt(&document);
    assert_eq!(attempt["outcome"], "timed_out", "{attempt:#}");
    let detail = text(attempt, "detail");
    assert!(
        detail.contains("time limit of 1s") && detail.contains("killed"),
        "{detail}"
    );
    assert_eq!(document["sweep"]["state"], "failed");
    assert_eq!(document["summary"]["exit_code"], 1);
}

#[test]
fn children_that_run_away_are_ended_with_their_job() {
    // Twice forked, sessions of their own, parents gone; one has even dropped the environment that marks it, and is
    // found by its unusual time.
    let unmarked = format!("601.{}", std::process::id());
    let runaway = format!(
        "for i in 1 2 3; do (setsid sh -c '(trap \"\" TERM HUP; while :; do sleep 1; done) &' &); done\n\
         (setsid env -i sleep {unmarked} &)\nprintf '{{\"result\": {{}}}}\\n' >> \"$SWEEP_REPORT\"\n"
    );
    let (_room, _coordinator, document) = run(&runaway, STAGE);
    let attempt = attempt(&document);
    assert_eq!(attempt["outcome"], "succeeded", "{attempt:#}");
    assert!(
        text(attempt, "detail").contains("left running"),
        "{attempt:#}"
    );
    let escaped = whole::living(&unmarked);
    assert!(escaped.is_empty(), "processes {escaped:?} escaped");
}

#[test]
fn a_program_that_does_not_exist_says_what_to_do() {
    let (_room, _coordinator, document) =
        run("", "[train]\nrun = [\"no-such-program-here\", \"x\"]");
    let attempt = attempt(&document);
    assert_eq!(attempt["outcome"], "failed");
    assert_eq!(
        attempt["exit"],
        Value::Null,
        "it never ran, so it has no exit code"
    );
    let detail = text(attempt, "detail");
    for part in [
        "no-such-program-here",
        "does not exist on this host",
        "install it",
        "`run`",
    ] {
        assert!(detail.contains(part), "no `{part}` in: {detail}");
    }
}

#[test]
fn a_broken_report_is_kept_and_shown_and_not_fatal() {
    let nonsense = "printf '{\"metric\": {\"loss\": 0.25}, \"step\": 3}\\nthis is {not json\\n[1, 2]\\n' >> \"$SWEEP_REPORT\"\n\
        printf '{\"result\": {\"held_out\": 0.5}}\\n{\"half a line\": ' >> \"$SWEEP_REPORT\"\n";
    let (room, coordinator, document) = run(nonsense, STAGE);
    let attempt = attempt(&document);
    assert_eq!(attempt["outcome"], "succeeded", "{attempt:#}");
    assert_eq!(attempt["result"]["held_out"], 0.5);
    assert_eq!(attempt["metrics"]["loss"], 0.25);
    let detail = text(attempt, "detail");
    assert!(
        detail.contains("3 lines of the report") && detail.contains("line 2: this is {not json"),
        "{detail}"
    );
    // Byte for byte, on the coordinator's side too.
    let id = text(attempt, "id");
    let central = std::fs::read(
        coordinator
            .data
            .join("attempts")
            .join(id)
            .join("report.jsonl"),
    );
    let host = std::fs::read(
        room.data()
            .join("agents/box/attempts")
            .join(id)
            .join("report.jsonl"),
    );
    assert_eq!(
        central.expect("the central report"),
        host.expect("the host's report")
    );
}

#[test]
fn a_failing_job_says_its_last_line_and_what_follows_is_skipped() {
    let fails = "echo starting\necho 'no such column: rnak' >&2\nexit 3\n";
    let (_room, _coordinator, document) = run(
        fails,
        &format!("{STAGE}\n[bake]\nafter = \"train\"\nrun = [\"sh\", \"{{kit}}/job.sh\"]"),
    );
    let attempt = attempt(&document);
    assert_eq!(
        (attempt["outcome"].as_str(), attempt["exit"].as_i64()),
        (Some("failed"), Some(3))
    );
    assert!(
        text(attempt, "detail").contains("no such column: rnak"),
        "{attempt:#}"
    );
    assert_eq!(job(&document, "/1/bake")["outcome"], "skipped");
    assert_eq!(document["summary"]["exit_code"], 1);
}

/// What a program says of its own failure goes before guesses from its exit code.
#[test]
fn a_failure_that_the_program_names_is_that_one() {
    for (name, exit, outcome) in [
        ("host_oom", 71, "host_oom"),
        ("missing_package", 69, "failed"),
        ("server_error", 68, "interrupted"),
    ] {
        let fails = format!(
            "echo '{{\"error\": \"{name}\", \"message\": \"it says what\"}}'\necho more words\nexit {exit}\n"
        );
        let retry = "[retry]\ninterrupted = 0";
        let (_room, _coordinator, document) = run(&fails, &format!("{STAGE}\n{retry}"));
        let attempt = attempt(&document);
        assert_eq!(attempt["outcome"], outcome, "{attempt:#}");
        assert_eq!(
            text(attempt, "detail"),
            format!("it says what ({name}, exit {exit})")
        );
    }
}
