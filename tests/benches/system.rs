//! Figures of the whole system, with real processes: `cargo bench -p whole`. Prints a table for docs/benchmarks.md.
//! Refuses nothing and asserts no time: a benchmark reports, the reader judges.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use whole::{Coordinator, Room, until_some};

fn main() {
    // `cargo test --benches` only wants to see it build.
    if !std::env::args().any(|one| one == "--bench") {
        return;
    }
    println!("| figure | measured | aim |\n| --- | --- | --- |");
    submit();
    jobs();
    queue();
}

/// A sweep of `count` trials whose program does nothing.
fn noop(room: &Room, name: &str, count: u32) -> PathBuf {
    let values: Vec<String> = (1..=count.min(100)).map(|n| n.to_string()).collect();
    let mut axes = format!("a = [{}]\n", values.join(", "));
    if count > 100 {
        let more: Vec<String> = (1..=count / 100).map(|n| n.to_string()).collect();
        axes += &format!("b = [{}]\n", more.join(", "));
    }
    room.sweep_file(name, &axes, "[train]\nrun = [\"true\"]\n")
}

fn submit() {
    let room = Room::new();
    let server = room.coordinator();
    let file = noop(&room, "big", 10_000);
    let start = Instant::now();
    server.submit(&room, &file);
    row(
        "submit 10,000 trials until acknowledged",
        start.elapsed(),
        "under 1 s",
    );
}

fn jobs() {
    const COUNT: u32 = 2000;
    let room = Room::new();
    let server = room.coordinator();
    let _agent = room.agent("bench", 2, &server.url);
    let file = noop(&room, "noop", COUNT);
    let start = Instant::now();
    let sweep = server.submit(&room, &file);
    server.settled(&room, &sweep);
    let rate = f64::from(COUNT) / start.elapsed().as_secs_f64();
    println!(
        "| no-op jobs, submit to last durable end, one agent, 2 slots ({COUNT} jobs) | {rate:.0}/s | 300/s |"
    );
}

/// 100,000 queued jobs: memory, and a restart until the first placement.
fn queue() {
    let room = Room::new();
    let mut server = room.coordinator();
    let file = noop(&room, "queue", 100_000);
    let start = Instant::now();
    server.submit(&room, &file);
    row(
        "submit 100,000 trials until acknowledged",
        start.elapsed(),
        "",
    );
    println!(
        "| coordinator memory, 100,000 queued jobs | {} MiB | under 500 MiB |",
        resident(&server)
    );
    server.kill9();
    let start = Instant::now();
    server.start_again();
    row(
        "restart with 100,000 queued jobs until it answers",
        start.elapsed(),
        "",
    );
    let _agent = room.agent("bench", 2, &server.url);
    until_some("a first placement", Duration::from_secs(60), || {
        let history = server
            .sweep(&room, &["history", "--limit", "1", "--json"])
            .json();
        history["attempts"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
            .then_some(())
    });
    row(
        "the same until the first placement, agent's start included",
        start.elapsed(),
        "under 5 s",
    );
}

fn resident(server: &Coordinator) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn row(what: &str, took: Duration, aim: &str) {
    println!("| {what} | {:.2} s | {aim} |", took.as_secs_f64());
}
