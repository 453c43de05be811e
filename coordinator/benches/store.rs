//! How fast the embedded store is: durable commits by group size, history with many attempts stored, and the start
//! with many open attempts. Prints a table; says nothing of another machine.
//!
//! `cargo bench -p coordinator --bench store -- history` runs one of commits, history and start.
//! `STORE_BENCH_ATTEMPTS` (100000) attempts are stored for history, `STORE_BENCH_FOLDER` is where (a temporary
//! folder; memory-backed ones make fsync free, and the figures worthless).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coordinator::store::{
    AttemptRecord, Backup, Batch, HistoryQuery, Reader, Record, SledStore, Store, SweepRecord,
    compact, restore, verify,
};

const NOW: u64 = 1_796_000_000_000;
const HOSTS: u64 = 10;
const TRIALS: u64 = 10_000;

fn main() {
    let attempts = std::env::var("STORE_BENCH_ATTEMPTS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(100_000);
    let base =
        std::env::var_os("STORE_BENCH_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(base).expect("a folder to work in");
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    if wants("commits") {
        commits(&folder.path().join("commits"));
    }
    if wants("history") {
        history(&folder.path().join("history"), attempts);
    }
    if wants("start") {
        start(&folder.path().join("start"), 100_000);
    }
}

fn row(what: &str, figure: &str) {
    println!("{what:<64} {figure:>22}");
}

fn took(what: &str, work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    let took = start.elapsed();
    row(what, &format!("{:.1} ms", took.as_secs_f64() * 1e3));
    took
}

/// As the coordinator writes it: placed, then ended.
fn attempt(at: u64, ended: bool) -> AttemptRecord {
    AttemptRecord {
        sweep: 1 + at / TRIALS,
        trial: u32::try_from(1 + at % TRIALS).expect("fits"),
        kind: 2,
        number: 1,
        host: format!("host-{}", at % HOSTS),
        devices: vec!["GPU-3f1c2d4e-0000-1111-2222-333344445555".to_owned()],
        placed_ms: NOW + at,
        ended_ms: if ended { NOW + at + 1000 } else { 0 },
        outcome: if !ended { "" } else if at % 50_000 == 7 { "gpu_oom" } else { "succeeded" }.to_owned(),
        sweep_id: format!("bench-{}", 1 + at / TRIALS),
        recipe: r#"{"rank":96,"dropout":0.1,"rslora":true,"alpha":32,"seq_len":7177,"response_len":237,"quant":"nf4",
            "targets":["q_proj","k_proj","v_proj","o_proj"],"optimizer":"adamw_8bit","epochs":3}"#
            .to_owned(),
        ..AttemptRecord::default()
    }
}

fn sweep(number: u64, settled: bool) -> SweepRecord {
    SweepRecord {
        number,
        id: format!("bench-{number}"),
        toml: vec![b'#'; 1500],
        settled_ms: if settled { NOW } else { 0 },
        ..SweepRecord::default()
    }
}

fn commits(data: &Path) {
    for group in [1_u64, 16, 256] {
        let data = data.join(group.to_string());
        let mut store = SledStore::open(&data, NOW).expect("open");
        let rounds = if group == 1 { 1000 } else { 300 };
        let start = Instant::now();
        for round in 0..rounds {
            let records = (0..group).map(|at| {
                let at = round * group + at;
                // Every second record ends the attempt that the one before it placed.
                Record::from(attempt(at / 2, at % 2 == 1))
            });
            store
                .commit(&Batch::from(records.collect::<Vec<_>>()))
                .expect("commit");
        }
        let seconds = start.elapsed().as_secs_f64();
        let (commits, records) = (
            f64::from(u32::try_from(rounds).expect("fits")),
            rounds * group,
        );
        let figure = format!(
            "{:.0}/s, {:.0} records/s",
            commits / seconds,
            records as f64 / seconds
        );
        row(&format!("durable commits of {group} records"), &figure);
    }
}

fn history(data: &Path, attempts: u64) {
    let mut store = SledStore::open(data, NOW).expect("open");
    took(&format!("store {attempts} attempts, 1000 a commit"), || {
        let mut batch = Batch::new();
        for at in 0..attempts {
            if at % TRIALS == 0 {
                batch.push(sweep(1 + at / TRIALS, at + TRIALS < attempts).into());
            }
            batch.push(attempt(at, true).into());
            if batch.len() >= 1000 || at + 1 == attempts {
                store.commit(&std::mem::take(&mut batch)).expect("commit");
            }
        }
    });
    memory();
    queries(&store, "warm", 20);
    drop(store);
    let mut store = None;
    took("open it after a clean close", || {
        store = Some(SledStore::open(data, NOW).expect("open"))
    });
    let store = store.expect("opened");
    took("load", || {
        assert_eq!(store.load().expect("load").open.len(), 1)
    });
    queries(&store, "cold", 1);
    memory();
    let to = data.with_extension("backup");
    took("backup", || {
        assert!(
            store
                .backup(&to, Backup::default())
                .expect("backup")
                .records
                > attempts
        )
    });
    drop(store);
    took("open it a second time", || {
        drop(SledStore::open(data, NOW).expect("open"))
    });
    took("restore", || {
        assert!(
            restore(&to, &data.with_extension("restored"))
                .expect("restore")
                .records
                > attempts
        )
    });
    took("verify", || {
        assert_eq!(verify(data).expect("verify").attempts, attempts)
    });
    let report = compact(data).expect("compact");
    row(
        "compact",
        &format!(
            "{} -> {} MiB",
            report.bytes_before >> 20,
            report.bytes_after >> 20
        ),
    );
}

fn queries(store: &SledStore, state: &str, times: u32) {
    let any = HistoryQuery::default;
    let some = |text: &str| Some(text.to_owned());
    let list = [
        (
            "newest 100 of a host",
            HistoryQuery {
                host: some("host-3"),
                ..any()
            },
        ),
        ("newest 100", any()),
        (
            "newest 100 of a sweep of 10000 attempts",
            HistoryQuery {
                sweep: Some(2),
                ..any()
            },
        ),
        (
            "newest 100 of a host until long ago",
            HistoryQuery {
                host: some("host-3"),
                until_ms: Some(NOW + 9000),
                ..any()
            },
        ),
        (
            "a page of a rare outcome",
            HistoryQuery {
                outcome: some("gpu_oom"),
                ..any()
            },
        ),
    ];
    for (name, query) in list {
        let mut slowest = Duration::ZERO;
        let mut found = 0;
        for _ in 0..times {
            let start = Instant::now();
            found = store.history(&query).expect("history").attempts.len();
            slowest = slowest.max(start.elapsed());
        }
        let figure = format!("{:.2} ms", slowest.as_secs_f64() * 1e3);
        row(
            &format!("history, {state}, slowest of {times}: {name} ({found})"),
            &figure,
        );
    }
}

fn start(data: &Path, attempts: u64) {
    let mut store = SledStore::open(data, NOW).expect("open");
    for first in (0..attempts).step_by(1000) {
        let mut records: Vec<Record> = (first..first + 1000)
            .map(|at| attempt(at, false).into())
            .collect();
        if first % TRIALS == 0 {
            records.push(sweep(1 + first / TRIALS, false).into());
        }
        store.commit(&Batch::from(records)).expect("commit");
    }
    drop(store);
    took(
        &format!("open and load {attempts} attempts of open sweeps"),
        || {
            let store = SledStore::open(data, NOW).expect("open");
            let open = store.load().expect("load").open;
            assert_eq!(
                open.iter()
                    .map(|sweep| sweep.attempts.len() as u64)
                    .sum::<u64>(),
                attempts
            );
        },
    );
    memory();
}

fn memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status
        .lines()
        .filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"))
    {
        row(
            "memory of this process",
            line.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .as_str(),
        );
    }
}
