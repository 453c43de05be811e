//! Agents, shepherds and sessions that die and come back: nothing is lost, nothing is reported twice, nothing is left.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent::Leave;
use common::{eventually, signal};
use coordinator::Coordinator;
use host::{A, B, Host};
use proto::v1::event;
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shepherd_is_noticed_and_nothing_is_left() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, "(setsid sleep 300 &); sleep 300 & echo ready; sleep 300");
    host.until_log(A, "ready").await;
    let begin = Instant::now();
    signal(host.pid(A, "shepherd"), Signal::KILL);
    let ended = coordinator.until_ended(A).await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(ended.outcome, "interrupted");
    assert!(
        ended.detail.starts_with("its shepherd was killed"),
        "{}",
        ended.detail
    );
    host.nothing_lives();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_outlive_their_agent_and_are_adopted() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "echo one; until [ -e go ]; do sleep 0.02; done; echo two",
    );
    coordinator.start(B, "echo one; until [ -e go ]; do sleep 0.02; done; exit 3");
    host.until_log(A, "one").await;
    host.until_log(B, "one").await;
    let pid = host.pid(A, "program");
    running.end().await;
    // B ends while there is no agent.
    fs::write(host.root.path().join("agent/work/digits-abc/2/go"), "").unwrap();
    eventually("B has ended", || {
        host.attempt(B).join("ending.json").exists()
    });
    let running = host.agent(Leave::Running).await;
    let hello = coordinator.kept().hellos.last().cloned().unwrap();
    assert_eq!(hello.attempts.len(), 2);
    let ended = coordinator.until_ended(B).await;
    assert_eq!((ended.outcome.as_str(), ended.exit), ("failed", Some(3)));
    assert_eq!(host.pid(A, "program"), pid);
    fs::write(host.root.path().join("agent/work/digits-abc/1/go"), "").unwrap();
    assert_eq!(coordinator.until_ended(A).await.outcome, "succeeded");
    assert_eq!(coordinator.log(A), b"one\ntwo\n");
    assert_eq!(
        (coordinator.endings(A).len(), coordinator.endings(B).len()),
        (1, 1)
    );
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shepherd_killed_while_there_was_no_agent() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "(setsid sh -c 'sleep 300; sleep 300' &); echo ready; sleep 300",
    );
    host.until_log(A, "ready").await;
    let pid = host.pid(A, "shepherd");
    running.end().await;
    signal(pid, Signal::KILL);
    let running = host.agent(Leave::Running).await;
    assert_eq!(coordinator.until_ended(A).await.outcome, "interrupted");
    host.nothing_lives();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_is_reported_again_under_its_number() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.kept().deaf = true;
    coordinator.start(A, "echo done");
    eventually("it has ended", || {
        host.attempt(A).join("ending.json").exists()
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.end().await;
    let spool = fs::read_to_string(host.root.path().join("agent/spool")).unwrap();
    let line = spool.lines().find(|line| line.contains(" ended ")).unwrap();
    let seq: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
    coordinator.kept().deaf = false;
    let running = host.agent(Leave::Running).await;
    assert_eq!(coordinator.until_ended(A).await.outcome, "succeeded");
    let is_ended = |event: &&proto::v1::Event| matches!(event.event, Some(event::Event::Ended(_)));
    assert_eq!(
        coordinator.kept().events.iter().find(is_ended).unwrap().seq,
        seq
    );
    eventually("it is acknowledged", || {
        host.attempt(A).join("acked").exists()
    });
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_attempt_is_ended_and_never_reported() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, "echo ready; sleep 300");
    host.until_log(A, "ready").await;
    coordinator.kept().drop = vec![A.into()];
    coordinator.cut();
    eventually("it is forgotten", || host.attempt(A).join("acked").exists());
    host.nothing_lives();
    assert!(coordinator.ended(A).is_none());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_go_on_without_a_coordinator() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(
        A,
        "echo one; until [ -e go ]; do sleep 0.02; done; echo two",
    );
    host.until_log(A, "one").await;
    coordinator.kept().down = true;
    coordinator.cut();
    fs::write(host.root.path().join("agent/work/digits-abc/1/go"), "").unwrap();
    eventually("it has ended", || {
        host.attempt(A).join("ending.json").exists()
    });
    coordinator.kept().down = false;
    assert_eq!(coordinator.until_ended(A).await.outcome, "succeeded");
    assert_eq!(coordinator.log(A), b"one\ntwo\n");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn left_suspended_everything_ends_and_is_reported() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Suspended).await;
    coordinator.start(A, "echo ready; exec sleep 300");
    host.until_log(A, "ready").await;
    running.end().await;
    let ended = coordinator.ended(A).unwrap();
    assert_eq!(
        (ended.outcome.as_str(), ended.detail.as_str()),
        ("suspended", "suspended, to be continued")
    );
    assert!(host.attempt(A).join("acked").exists());
    host.nothing_lives();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_and_another_protocol_are_refused() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let shutdown = CancellationToken::new();
    let second = agent::run(host.options(&shutdown, Leave::Running))
        .await
        .unwrap_err();
    assert!(
        second.to_string().contains("another agent works on it"),
        "{second}"
    );
    running.end().await;
    coordinator.kept().refuse =
        Some("this agent speaks protocol 1, which is too old: upgrade it".into());
    let other = agent::run(host.options(&shutdown, Leave::Running))
        .await
        .unwrap_err();
    assert!(
        other
            .to_string()
            .contains("speaks protocol 1, which is too old: upgrade it"),
        "{other}"
    );
}

/// A small file system of its own, where this process may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=400k", "tmpfs"])
            .arg(&at)
            .stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        mounted.then_some(Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_and_the_next_start_says_so_too() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let Some(disk) = SmallDisk::mount(host.root.path().join("agent")) else {
        eprintln!("not run: this needs the right to mount a file system");
        return;
    };
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, "head -c 2000000 /dev/zero || exit 5");
    let ended = coordinator.until_ended(A).await;
    assert_eq!((ended.outcome.as_str(), ended.exit), ("failed", Some(5)));
    assert!(
        ended.detail.contains("No space left on device"),
        "{}",
        ended.detail
    );
    assert_eq!(coordinator.log(A).len() as u64, ended.log_bytes);
    coordinator.start(B, "exit 0");
    let ended = coordinator.until_ended(B).await;
    assert_eq!(ended.outcome, "failed");
    assert!(
        ended.detail.contains("No space left on device"),
        "{}",
        ended.detail
    );
    running.end().await;
    drop(disk);
}
