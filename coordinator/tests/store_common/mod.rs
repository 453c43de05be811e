//! Records for the store's tests, and a child process of the same test program to do harm to.

#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Stdio};

use coordinator::store::{
    AttemptRecord, Batch, HostRecord, MarkRecord, ObservationRecord, Record, RehearsalRecord,
    RulingRecord, SledStore, SweepRecord,
};

pub const NOW: u64 = 1_796_000_000_000;

pub fn open(data: &Path) -> SledStore {
    SledStore::open(data, NOW).unwrap()
}

pub fn sweep(number: u64) -> SweepRecord {
    SweepRecord {
        number,
        id: format!("sweep-{number}"),
        name: "sweep".to_owned(),
        toml: b"[sweep]\nname = \"sweep\"\n".to_vec(),
        submitted_ms: NOW + number,
        trials: 4,
        jobs: 12,
        ..SweepRecord::default()
    }
}

pub fn attempt(
    sweep: u64,
    trial: u32,
    kind: u32,
    number: u32,
    host: &str,
    placed_ms: u64,
) -> AttemptRecord {
    AttemptRecord {
        sweep,
        trial,
        kind,
        number,
        host: host.to_owned(),
        placed_ms,
        sweep_id: format!("sweep-{sweep}"),
        recipe: r#"{"rank": 96, "dropout": 0.1, "rslora": true, "alpha": 32, "seq_len": 7177}"#
            .to_owned(),
        verdict: "fits".to_owned(),
        devices: vec!["GPU-3f1c".to_owned()],
        ..AttemptRecord::default()
    }
}

pub fn ended(mut attempt: AttemptRecord, outcome: &str) -> AttemptRecord {
    attempt.started_ms = attempt.placed_ms + 5;
    attempt.ended_ms = attempt.placed_ms + 1000;
    attempt.ran_ms = 995;
    attempt.outcome = outcome.to_owned();
    attempt
}

pub fn host(name: &str) -> HostRecord {
    HostRecord {
        name: name.to_owned(),
        generation: 1,
        ..HostRecord::default()
    }
}

pub fn ruling(sweep: u64, trial: u32, kind: u32) -> RulingRecord {
    RulingRecord {
        sweep,
        trial,
        kind,
        outcome: "skipped".to_owned(),
        ..RulingRecord::default()
    }
}

pub fn mark(sweep: u64, order: u64) -> MarkRecord {
    MarkRecord {
        sweep,
        order,
        what: "cancel".to_owned(),
        ..MarkRecord::default()
    }
}

/// Its stream is a blob, which is kept before.
pub fn rehearsal(key: &str, blob: &str) -> RehearsalRecord {
    RehearsalRecord {
        key: key.into(),
        settings: "{}".into(),
        mode: "train".into(),
        stack: "torch 2.15".into(),
        blob: blob.into(),
        host: "box".into(),
        ..RehearsalRecord::default()
    }
}

pub fn observation(number: u64) -> ObservationRecord {
    ObservationRecord {
        number,
        at_ms: NOW,
        json: "{}".to_owned(),
    }
}

pub fn batch(records: impl IntoIterator<Item = Record>) -> Batch {
    Batch::from(records.into_iter().collect::<Vec<_>>())
}

/// A small store with something of everything.
pub fn some_of_everything() -> Batch {
    let mut records: Vec<Record> = vec![
        sweep(1).into(),
        SweepRecord {
            settled_ms: NOW + 9,
            state: "succeeded".to_owned(),
            ..sweep(2)
        }
        .into(),
        host("rig").into(),
        host("box").into(),
        ruling(1, 3, 1).into(),
        mark(1, 1).into(),
        observation(1).into(),
    ];
    for number in 1..=2 {
        for trial in 1..=4 {
            let host = if trial % 2 == 0 { "rig" } else { "box" };
            let placed = attempt(
                number,
                trial,
                2,
                1,
                host,
                NOW + number * 100 + u64::from(trial),
            );
            records.push(ended(placed, "succeeded").into());
        }
    }
    Batch::from(records)
}

/// This test program again, running the one (ignored) test `child`, told apart by a variable that names a folder.
pub fn child(test: &str, folder: &Path, before: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words: Vec<std::ffi::OsString> = before.iter().map(Into::into).collect();
    words.push(program.into());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args([
            test,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("STORE_CHILD_FOLDER", folder)
        .stdout(Stdio::piped());
    command
}

/// In the child: the folder it was given.
pub fn child_folder() -> Option<std::path::PathBuf> {
    std::env::var_os("STORE_CHILD_FOLDER").map(Into::into)
}
