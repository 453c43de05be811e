//! The shipped sweep for any machine, made small: real Python processes that learn on this machine's CPU, through
//! probe, training and evaluation. Every figure is measured, and none is marked simulated.

use std::time::Duration;

use serde_json::Value;
use whole::{Room, all_succeeded, attempts, jobs, project, text};

/// The shipped file with less work in it. Fails when the file no longer says what is made smaller here.
fn reduced() -> String {
    let path = project().join("jobs/local-digits.toml");
    let mut file = std::fs::read_to_string(path).expect("the shipped file");
    for (shipped, small) in [
        ("examples = 600", "examples = 200"),
        ("held_out = 300", "held_out = 100"),
        ("epochs = 30", "epochs = 8"),
        ("hidden = [16, 40]", "hidden = [12]"),
        ("l2 = [0.0, 3e-3]", "l2 = [0.0]"),
    ] {
        assert!(
            file.contains(shipped),
            "local-digits.toml has no `{shipped}`"
        );
        file = file.replace(shipped, small);
    }
    file
}

#[track_caller]
fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

#[test]
fn it_learns_and_everything_is_measured() {
    let room = Room::new();
    let file = room.file("digits.toml", &reduced());
    let (file, data) = (file.to_str().expect("plain text"), room.data());
    let words = [
        "--data",
        data.to_str().expect("plain text"),
        "run",
        file,
        "--json",
    ];
    let mut command = room.command(&words);
    // The sweep file lies in the room, where no kit is found.
    command.env("SWEEP_KIT", project().join("jobs/kit"));
    let said = room
        .start_command(command, &words)
        .finish(Duration::from_secs(180));
    let document = said.json();

    all_succeeded(&document);
    assert_eq!(document["sweep"]["simulated"], false);
    assert!(
        !said.out.contains("\"simulated\": true"),
        "something is marked simulated"
    );
    let kinds: Vec<&str> = jobs(&document)
        .iter()
        .map(|job| text(job, "kind"))
        .collect();
    assert_eq!(kinds, ["probe", "train", "bake", "probe", "train", "bake"]);
    for attempt in attempts(&document) {
        let peak = number(&attempt["peak_allocated_mib"]);
        // A Python process needs some 10 MiB; the file says 200.
        assert!((5.0..200.0).contains(&peak), "a peak of {peak} MiB");
        assert!(number(&attempt["seconds"]) > 0.0);
    }
    for job in jobs(&document) {
        let result = &attempts(job)[0]["result"];
        match text(job, "kind") {
            "train" => {
                let data = room.data();
                let log = std::fs::read_to_string(report(&data, text(attempts(job)[0], "id")))
                    .expect("a report");
                losses_fall(&log);
                assert!(
                    number(&result["loss"]) < 2.2,
                    "ten digits by chance are 2.3: {result}"
                );
            }
            "bake" => assert!(number(&result["held_out"]) > 0.2, "chance is 0.1: {result}"),
            _ => assert!(number(&result["step_seconds"]) > 0.0),
        }
    }
}

fn report(data: &std::path::Path, attempt: &str) -> std::path::PathBuf {
    data.join("attempts").join(attempt).join("report.jsonl")
}

#[track_caller]
fn losses_fall(report: &str) {
    let lines = report
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let losses: Vec<f64> = lines
        .filter_map(|line| line["metric"]["held_out_loss"].as_f64())
        .collect();
    assert_eq!(losses.len(), 8, "one for each epoch: {losses:?}");
    assert!(losses[7] < losses[0], "{losses:?}");
}
