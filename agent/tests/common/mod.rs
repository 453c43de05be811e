//! What the tests of this crate share: where the shepherd is, and looking for processes that should be gone.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

/// The example `shepherd`, which `cargo test` builds before it runs anything; `cargo test --test NAME` does not.
pub fn shepherd() -> PathBuf {
    let own = std::env::current_exe().expect("this test has a path");
    let target = own
        .parent()
        .and_then(Path::parent)
        .expect("it lies in target/*/deps");
    let shepherd = target.join("examples/shepherd");
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        if !shepherd.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args([
                "build",
                "--quiet",
                "-p",
                "agent",
                "--example",
                "shepherd",
                "--target-dir",
            ]);
            build.arg(target.parent().expect("target"));
            build.args(target.ends_with("release").then_some("--release"));
            assert!(
                build.status().is_ok_and(|built| built.success()),
                "the example `shepherd` does not build"
            );
        }
    });
    shepherd
}

/// Waits for something to become true; tests must not depend on how fast the machine is.
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !check() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "never came true: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Living processes whose environment mentions this folder.
pub fn living(folder: &Path) -> Vec<u32> {
    let needle = folder.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let dead = stat
            .rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('Z'));
        !dead && String::from_utf8_lossy(&environment).contains(&needle)
    };
    pids.filter(|pid| *pid != std::process::id())
        .filter(marked)
        .collect()
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("it lives");
}
