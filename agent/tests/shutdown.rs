//! An agent that is asked to end does so at once, also while a GPU's driver hangs. The driver is a recording that has
//! become a pipe to which nobody writes.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::time::{Duration, Instant};

use agent::Leave;
use agent::config::HostConfig;
use coordinator::Coordinator;
use host::Host;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_hangs_holds_up_no_shutdown() {
    let (coordinator, address) = Coordinator::serve().await;
    let host = Host::new(address);
    let recording = host.root.path().join("cards.json");
    std::fs::write(&recording, include_str!("devices/desktop.json")).unwrap();
    let file = host.root.path().join("host.toml");
    let text = format!(
        "name = \"box\"\nsimulated = true\nrecorded_devices = {recording:?}\n[[device]]\nkind = \"cpu\"\nusable = \"1 GiB\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let config = HostConfig::read(&file).unwrap();
    assert!(config.devices.iter().any(|device| device.watched));
    std::fs::remove_file(&recording).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(&recording)
        .status();
    assert!(made.unwrap().success());

    let shutdown = CancellationToken::new();
    let mut options = host.options(&shutdown, Leave::Running);
    options.config = config;
    let agent = tokio::spawn(agent::run(options));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!agent.is_finished(), "it waits for its driver");
    assert!(
        coordinator.kept().hellos.is_empty(),
        "it waits for its driver"
    );
    let asked = Instant::now();
    shutdown.cancel();
    agent.await.unwrap().unwrap();
    // It would wait for ten seconds, twice.
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    // The thread that hangs in the pipe is let go, or this test's own runtime would wait for it.
    let pipe = std::fs::OpenOptions::new().write(true).open(&recording);
    drop(pipe.unwrap());
}
