//! A whole agent against a coordinator that is a test: what an attempt gets, and what is reported of it.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::fs;
use std::time::{Duration, Instant};

use agent::Leave;
use common::eventually;
use coordinator::Coordinator;
use host::{A, B, Host};
use proto::v1::{Channel, StopReason};

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_from_start_to_ending() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let script = "echo \"$SWEEP_ATTEMPT $SWEEP_SEED $FROM_HOST $CUDA_VISIBLE_DEVICES\"; cat $SWEEP_CONFIG; \
        echo '{\"result\": {\"score\": 0.5}}' >> $SWEEP_REPORT; touch $SWEEP_CHECKPOINT_DIR/x; pwd; echo $SWEEP_DIR";
    coordinator.start(A, script);
    let ended = coordinator.until_ended(A).await;
    assert_eq!(
        (ended.outcome.as_str(), ended.exit, ended.detail.as_str()),
        ("succeeded", Some(0), "")
    );
    assert_eq!(ended.result, "{\"score\":0.5}");
    let memory = ended.memory.unwrap();
    assert!(memory.allocated_bytes.unwrap() > 0 && memory.allocated_bytes == memory.resident_bytes);
    let log = String::from_utf8(coordinator.log(A)).unwrap();
    let work = fs::canonicalize(host.root.path())
        .unwrap()
        .join("agent/work/digits-abc/1");
    let begin = format!("{A} 7 yes -1\n{{\"rank\":8,\"resources\":{{}}}}");
    assert!(log.starts_with(&begin), "{log}");
    assert_eq!(
        log[begin.len()..].lines().collect::<Vec<_>>(),
        [work.to_str().unwrap(); 2]
    );
    assert!(work.join("checkpoints/x").exists());
    coordinator
        .until("heartbeats", |kept| kept.heartbeats > 2)
        .await;
    eventually("it is acknowledged", || {
        host.attempt(A).join("acked").exists()
    });
    let hello = coordinator.kept().hellos[0].clone();
    assert_eq!((hello.protocol, hello.host.unwrap().devices.len()), (1, 1));
    assert_eq!(coordinator.kept().broken_rules, Vec::<String>::new());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_on_a_cpu_share_its_cores_and_python_compiles_in_the_agents_folder() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "echo \"$OMP_NUM_THREADS\"; echo \"$PYTHONPYCACHEPREFIX\"",
    );
    coordinator.until_ended(A).await;
    let log = String::from_utf8(coordinator.log(A)).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    let (threads, folder) = log.trim_end().split_once('\n').unwrap();
    assert_eq!(threads, (cores / 2).max(1).to_string(), "two slots");
    let folder = std::path::Path::new(folder);
    assert!(folder.starts_with(host.root.path()) && folder.ends_with("agent/cache/python"));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_attempt_is_reported_at_once() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, "exit 0");
    coordinator.until_ended(A).await;
    let begin = Instant::now();
    coordinator.start(B, "exit 0");
    coordinator.until_ended(B).await;
    // Far below the polling interval of files, even on a busy machine.
    assert!(
        begin.elapsed() < Duration::from_millis(150),
        "{:?}",
        begin.elapsed()
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_arrives_to_the_last_byte_over_lost_sessions() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "i=0; while [ $i -lt 40 ]; do head -c 500000 /dev/urandom; i=$((i+1)); sleep 0.01; done",
    );
    for wanted in [3 << 20, 9 << 20, 14 << 20] {
        let key = (A.to_owned(), Channel::Log.into());
        coordinator
            .until("bytes", |kept| {
                kept.bytes
                    .get(&key)
                    .is_some_and(|bytes| bytes.len() >= wanted)
            })
            .await;
        coordinator.cut();
    }
    let ended = coordinator.until_ended(A).await;
    assert_eq!(ended.log_bytes, 20_000_000);
    assert!(coordinator.log(A) == fs::read(host.attempt(A).join("log")).unwrap());
    assert_eq!(coordinator.kept().broken_rules, Vec::<String>::new());
    assert!(coordinator.kept().hellos.len() >= 3);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_start_and_an_old_one_do_nothing() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    coordinator.kept().generation = 5;
    let running = host.agent(Leave::Running).await;
    let start = coordinator.start(A, "echo ran; sleep 0.3");
    let mut old = start.clone();
    (old.attempt, old.generation) = (B.into(), 4);
    for message in [start.clone(), old, start.clone()] {
        coordinator.say(proto::v1::coordinator_message::Message::Start(message));
    }
    coordinator.until_ended(A).await;
    coordinator.say(proto::v1::coordinator_message::Message::Start(start));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        (coordinator.log(A), coordinator.endings(A).len()),
        (b"ran\n".to_vec(), 1)
    );
    assert!(!host.attempt(B).exists());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_have_their_outcomes() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    for (number, reason, outcome) in [
        (1, StopReason::Cancelled, "cancelled"),
        (2, StopReason::Fenced, "interrupted"),
        (3, StopReason::Suspended, "suspended"),
    ] {
        let id = format!("stops-a/{number}/train/1");
        coordinator.start(&id, "echo ready; sleep 300");
        host.until_log(&id, "ready").await;
        coordinator.stop(&id, reason);
        assert_eq!(coordinator.until_ended(&id).await.outcome, outcome);
    }
    // Cancelled while it is being placed.
    coordinator.start(A, "sleep 300");
    coordinator.stop(A, StopReason::Cancelled);
    assert_eq!(coordinator.until_ended(A).await.outcome, "cancelled");
    host.nothing_lives();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_here_fails_with_a_reason() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let mut start = coordinator.start("ok-a/1/train/1", "exit 0");
    (start.attempt, start.argv) = (A.into(), vec!["/no/such/program".into()]);
    coordinator.say(proto::v1::coordinator_message::Message::Start(
        start.clone(),
    ));
    let ended = coordinator.until_ended(A).await;
    assert_eq!(ended.outcome, "failed");
    assert!(
        ended.detail.contains("does not exist on this host"),
        "{}",
        ended.detail
    );
    (start.attempt, start.devices) = (B.into(), vec!["GPU-1".into()]);
    coordinator.say(proto::v1::coordinator_message::Message::Start(start));
    let ended = coordinator.until_ended(B).await;
    assert!(
        ended.detail.starts_with("this host has no device `GPU-1`"),
        "{}",
        ended.detail
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_report_is_kept_and_told() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "printf '{\"metric\": \\nnope\\n{\"result\": 4}\\n' >> $SWEEP_REPORT",
    );
    let ended = coordinator.until_ended(A).await;
    assert_eq!(
        (ended.outcome.as_str(), ended.result.as_str()),
        ("succeeded", "4")
    );
    assert!(
        ended
            .detail
            .starts_with("2 lines of the report are not JSON"),
        "{}",
        ended.detail
    );
    let key = (A.to_owned(), Channel::Report.into());
    assert_eq!(
        coordinator.kept().bytes[&key].len() as u64,
        ended.report_bytes
    );
    running.end().await;
}

/// `cargo test --release -p agent --test agent -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn how_many_short_attempts_per_second() {
    const ATTEMPTS: u32 = 600;
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let begin = Instant::now();
    let slot = async |slot: u32| {
        for number in (slot + 1..=ATTEMPTS).step_by(2) {
            let id = format!("pace-a/{number}/train/1");
            coordinator.start(&id, "exit 0");
            while coordinator.ended(&id).is_none() {
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        }
    };
    tokio::join!(slot(0), slot(1));
    let rate = f64::from(ATTEMPTS) / begin.elapsed().as_secs_f64();
    println!("{rate:.0} attempts/s through 2 slots");
    running.end().await;
}
