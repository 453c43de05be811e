//! Streams that attempts leave, from their file to a coordinator that says what becomes of them: once for each, after
//! the ending, again where nothing was said, and no attempt ends otherwise because of one.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::time::Duration;

use agent::Leave;
use coordinator::Coordinator;
use host::{A, B, Host};

/// `gzip` of "a 512\nm 1\nm 4\n", by the program itself.
const WRITES: &str = "printf 'a 512\\nm 1\\nm 4\\n' | gzip > $SWEEP_STREAM_FILE";

async fn told(coordinator: &Coordinator, times: usize) {
    coordinator
        .until("a stream comes", |kept| kept.recorded.len() >= times)
        .await;
}

/// Long enough for another one to come, if there were any.
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(400)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_recorded_is_sent_once_and_after_its_ending() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, WRITES);
    coordinator.start(B, "echo no stream");
    told(&coordinator, 1).await;
    coordinator.until_ended(B).await;
    a_moment().await;
    let kept = coordinator.kept().recorded.clone();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!((kept[0].attempt.as_str(), kept[0].error.as_str()), (A, ""));
    let stream = vram::Stream::read(&kept[0].stream).unwrap();
    assert_eq!(stream.allocations(), 1);
    // A new session, and the next agent on this folder, have nothing to send.
    coordinator.cut();
    coordinator
        .until("again", |kept| kept.hellos.len() >= 2)
        .await;
    running.end().await;
    let running = host.agent(Leave::Running).await;
    coordinator
        .until("anew", |kept| kept.hellos.len() >= 3)
        .await;
    a_moment().await;
    assert_eq!(coordinator.kept().recorded.len(), 1);
    running.end().await;
    let broken = coordinator.kept().broken_rules.clone();
    assert!(broken.is_empty(), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_which_nothing_was_said_is_sent_again() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    coordinator.kept().keeps_streams = true;
    let running = host.agent(Leave::Running).await;
    coordinator.start(A, WRITES);
    told(&coordinator, 1).await;
    assert_eq!(coordinator.ended(A).unwrap().outcome, "succeeded");
    // By the next session, and by the next agent.
    coordinator.cut();
    told(&coordinator, 2).await;
    running.end().await;
    let running = host.agent(Leave::Running).await;
    told(&coordinator, 3).await;
    coordinator.kept().keeps_streams = false;
    coordinator.cut();
    told(&coordinator, 4).await;
    running.end().await;
    let running = host.agent(Leave::Running).await;
    coordinator
        .until("anew", |kept| kept.hellos.len() >= 5)
        .await;
    a_moment().await;
    let kept = coordinator.kept().recorded.clone();
    assert_eq!(kept.len(), 4);
    assert!(kept.iter().all(|one| *one == kept[0]));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_lies_there_is_told_and_the_attempt_ends_as_it_does() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let running = host.agent(Leave::Running).await;
    let cases = [
        ("printf 'a 512\\n' > $SWEEP_STREAM_FILE", "garbage"),
        ("mkdir $SWEEP_STREAM_FILE", "unreadable"),
        ("mkfifo $SWEEP_STREAM_FILE", "unreadable"),
        ("ln -s /dev/zero $SWEEP_STREAM_FILE", "unreadable"),
        ("truncate -s 1T $SWEEP_STREAM_FILE", "too_large"),
    ];
    for (number, (script, error)) in cases.into_iter().enumerate() {
        let attempt = format!("digits-abc/{}/train/1", number + 1);
        coordinator.start(&attempt, script);
        told(&coordinator, number + 1).await;
        let last = coordinator.kept().recorded[number].clone();
        assert_eq!(
            (last.attempt, last.error.as_str()),
            (attempt.clone(), error)
        );
        assert!(last.stream.is_empty() && !last.message.is_empty());
        assert_eq!(coordinator.ended(&attempt).unwrap().outcome, "succeeded");
    }
    running.end().await;
}
