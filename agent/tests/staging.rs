//! Files that a coordinator lists for an attempt: what must not be laid out is not even fetched, what does not come ends
//! the attempt as interrupted, and nothing of it is ever half started.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::fs;

use agent::Leave;
use coordinator::Coordinator;
use host::{A, Host};
use proto::v1::coordinator_message::Message;
use proto::v1::{StagedFile, Start, StopReason};

fn file(name: &str) -> StagedFile {
    StagedFile {
        bundle: "files".into(),
        name: name.into(),
        sha256: "0".repeat(64),
        size: 5,
        executable: false,
    }
}

fn start(coordinator: &Coordinator, attempt: &str, files: Vec<StagedFile>) {
    let start = Start {
        attempt: attempt.into(),
        generation: coordinator.kept().generation,
        devices: vec!["cpu".into()],
        argv: vec!["true".into()],
        config: "{}".into(),
        files,
        ..Start::default()
    };
    coordinator.say(Message::Start(start));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_leads_elsewhere_is_refused_whole() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let lists = [
        vec![file("../../../escaped")],
        vec![file("a"), file("/escaped")],
        vec![file("a/../../escaped")],
        vec![file("C:\\escaped")],
        vec![file("a"), file("A")],
        vec![file("a"), file("a/b")],
        vec![StagedFile {
            sha256: "../../escaped".into(),
            ..file("a")
        }],
        vec![StagedFile {
            bundle: "../escaped".into(),
            ..file("a")
        }],
    ];
    for (number, files) in (1..).zip(lists) {
        let attempt = format!("digits-abc/1/train/{number}");
        start(&coordinator, &attempt, files);
        let ended = coordinator.until_ended(&attempt).await;
        assert_eq!(ended.outcome, "interrupted", "{}", ended.detail);
        let says = "its files could not be brought to this host: the coordinator's list of them is refused";
        assert!(ended.detail.contains(says), "{}", ended.detail);
    }
    let bundles = host.root.path().join("agent/cache/bundles");
    assert_eq!(fs::read_dir(bundles).unwrap().count(), 0);
    running.end().await;
}

/// This coordinator knows nothing of files.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_interrupts_and_is_acknowledged() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    start(&coordinator, A, vec![file("a")]);
    let ended = coordinator.until_ended(A).await;
    assert_eq!(ended.outcome, "interrupted");
    assert!(
        ended.detail.contains("knows nothing of files such as a"),
        "{}",
        ended.detail
    );
    let acked = host.attempt(A).join("acked");
    common::eventually("it is acknowledged", || acked.exists());
    assert_eq!(coordinator.endings(A).len(), 1);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_waiting_for_files() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    // Without a session it waits for as long as it takes.
    start(&coordinator, A, vec![file("a")]);
    coordinator.stop(A, StopReason::Cancelled);
    let ended = coordinator.until_ended(A).await;
    assert!(
        matches!(&*ended.outcome, "cancelled" | "interrupted"),
        "{}",
        ended.outcome
    );
    running.end().await;
}
