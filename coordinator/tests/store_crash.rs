//! kill -9 in the middle of commits, many times over: what was acknowledged is there, and each batch is whole or
//! not there at all. The same for compact, and for writes that the system refuses half way.

mod store_common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use coordinator::store::{AttemptFiles, Batch, Channel, Reader, Record, Store, SweepRecord};
use store_common::*;

/// Each batch has the sweep of its number and this many attempts.
const ATTEMPTS: u32 = 12;

fn numbered_batch(number: u64) -> Batch {
    let mut records: Vec<Record> = vec![sweep(number).into()];
    for trial in 1..=ATTEMPTS {
        records.push(attempt(number, trial, 2, 1, "rig", NOW + number).into());
    }
    // Changes what an earlier batch wrote, so that pages are rewritten too.
    if number > 3 {
        let settled = SweepRecord {
            settled_ms: NOW,
            toml: Vec::new(),
            ..sweep(number - 3)
        };
        records.push(settled.into());
        records.extend((1..=ATTEMPTS).map(|trial| {
            ended(
                attempt(number - 3, trial, 2, 1, "rig", NOW + number - 3),
                "succeeded",
            )
            .into()
        }));
    }
    Batch::from(records)
}

/// Commits, puts blobs and appends to a log until it is killed.
#[test]
#[ignore = "the child of the test below"]
fn child_commits() {
    let Some(folder) = child_folder() else { return };
    let mut store = open(&folder);
    let mut files = AttemptFiles::new(&folder);
    let id: jobs::AttemptId = "crash-a/1/train/1".parse().unwrap();
    let mut out = std::io::stdout();
    for number in store.load().unwrap().newest_sweep + 1.. {
        let blob = store
            .put_blob(format!("{number} ").repeat(4000).as_bytes())
            .unwrap();
        let end = files.size(&id, Channel::Log).unwrap();
        files
            .append(&id, Channel::Log, end, format!("{number}\n").as_bytes())
            .unwrap();
        store.commit(&numbered_batch(number)).unwrap();
        writeln!(out, "ack {number} {blob}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    let mut blobs = Vec::new();
    for round in 0..40_u64 {
        let mut child = child("child_commits", data.path(), &[]).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // Killed at another moment each time: while opening, or some time after some commits.
        let (commits, more) = (round % 8, Duration::from_micros(round * 1_700 % 9_000));
        if commits == 0 {
            std::thread::sleep(more * 4);
            child.kill().unwrap();
        }
        let mut seen = 0;
        for line in out.lines() {
            let line = line.unwrap();
            // The harness's own line may have no end before it.
            let Some(at) = line.find("ack ") else {
                continue;
            };
            let mut words = line[at + 4..].split(' ');
            acknowledged = words.next().unwrap().parse().unwrap();
            blobs.extend(
                words
                    .next()
                    .filter(|blob| blob.len() == 64)
                    .map(str::to_owned),
            );
            seen += 1;
            if seen == commits {
                std::thread::sleep(more);
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        check(data.path(), acknowledged, &blobs);
    }
    assert!(
        acknowledged > 100,
        "only {acknowledged} batches in all: too little was tried"
    );
}

fn check(data: &Path, acknowledged: u64, blobs: &[String]) {
    let store = open(data);
    let heads = store.sweeps(0).unwrap();
    let newest = heads.first().map_or(0, |head| head.number);
    assert!(
        newest == acknowledged || newest == acknowledged + 1,
        "{newest} for {acknowledged}"
    );
    assert_eq!(heads.len() as u64, newest);
    for head in heads.iter().take(8) {
        let found = store.sweep(head.number).unwrap().unwrap();
        assert_eq!(
            found.attempts.len(),
            ATTEMPTS as usize,
            "batch {} is half there",
            head.number
        );
        let settled = newest >= head.number + 3;
        assert_eq!(head.settled_ms > 0, settled);
        assert!(found.attempts.iter().all(|it| (it.ended_ms > 0) == settled));
    }
    for blob in blobs.iter().rev().take(5) {
        store.blob(blob).unwrap();
    }
    drop(store);
    let report = coordinator::store::verify(data).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.attempts, newest * u64::from(ATTEMPTS));
    assert_eq!(report.index_entries, 2 * report.attempts);
}

#[test]
#[ignore = "the child of the test below"]
fn child_compacts() {
    let Some(folder) = child_folder() else { return };
    loop {
        coordinator::store::compact(&folder).unwrap();
    }
}

#[test]
fn compact_may_be_killed_at_any_moment() {
    let data = tempfile::tempdir().unwrap();
    let mut store = open(data.path());
    for number in 1..=150 {
        store.commit(&numbered_batch(number)).unwrap();
    }
    let before = store.load().unwrap();
    drop(store);
    for round in 0..20_u64 {
        let mut child = child("child_compacts", data.path(), &[]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + round * 41 % 230));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(open(data.path()).load().unwrap(), before, "round {round}");
    }
    let report = coordinator::store::verify(data.path()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.attempts, 150 * u64::from(ATTEMPTS));
}

/// Commits until a write fails, and shows that the store then takes nothing more.
#[test]
#[ignore = "the child of the test below"]
fn child_meets_a_limit() {
    let Some(folder) = child_folder() else { return };
    let mut store = open(&folder);
    let mut out = std::io::stdout();
    for number in 1.. {
        match store.commit(&numbered_batch(number)) {
            Ok(()) => writeln!(out, "ack {number}").unwrap(),
            Err(error) => {
                writeln!(out, "error {error:?}").unwrap();
                let again = store.commit(&numbered_batch(number + 1)).unwrap_err();
                writeln!(out, "again {again:?}").unwrap();
                break;
            }
        }
    }
    // What the engine does while it is dropped is not what is tried here.
    out.flush().unwrap();
    std::process::exit(0);
}

/// A file of sled's cannot grow beyond a limit of the process: its write fails in the middle.
#[cfg(unix)]
#[test]
fn after_a_write_that_failed_nothing_more_is_taken() {
    let data = tempfile::tempdir().unwrap();
    let limit = "trap '' XFSZ; ulimit -f 1500; exec \"$@\"";
    let shell = ["bash", "-c", limit, "bash"];
    let output = child("child_meets_a_limit", data.path(), &shell)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let acknowledged = text.matches("ack ").count() as u64;
    assert!(acknowledged > 20, "{text}");
    assert!(text.contains("\nerror Io {"), "{text}");
    assert!(text.contains("\nagain Broken {"), "{text}");
    check(data.path(), acknowledged, &[]);
}
