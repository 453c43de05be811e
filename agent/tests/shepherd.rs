//! Real shepherds with real programs that behave badly. What counts is the ending that is left on disk, and that no
//! process is left.

#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{eventually, living, shepherd, signal};
use rustix::process::Signal;
use serde_json::{Value, json};

struct Case {
    _root: tempfile::TempDir,
    folder: PathBuf,
    order: Value,
}

impl Case {
    fn new(argv: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("attempt");
        let work = root.path().join("work");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(&work).unwrap();
        let order = json!({
            "attempt": "a-b/1/train/1", "generation": 1, "argv": argv, "folder": work,
            "env": {"SWEEP_ATTEMPT": "a-b/1/train/1", "SWEEP_REPORT": folder.join("report.jsonl"), "PATH": "/usr/bin:/bin"},
            "time_limit_ms": 0, "grace_ms": 300,
        });
        Self {
            _root: root,
            folder,
            order,
        }
    }

    fn sh(script: &str) -> Self {
        Self::new(&["/bin/sh", "-c", script])
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.order[key] = value;
        self
    }

    fn command(&self) -> Command {
        fs::write(self.folder.join("order.json"), self.order.to_string()).unwrap();
        let mut command = Command::new(shepherd());
        command.arg("shepherd").arg(&self.folder);
        command
    }

    fn start(&self) -> Child {
        self.command().stdout(Stdio::piped()).spawn().unwrap()
    }

    fn finish(&self) -> Value {
        let output = self.command().output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        self.ending()
    }

    fn ending(&self) -> Value {
        assert_eq!(living(&self.folder), Vec::<u32>::new());
        serde_json::from_slice(&fs::read(self.folder.join("ending.json")).unwrap()).unwrap()
    }

    fn wait_for_log(&self, text: &str) {
        eventually("the program says something", || {
            fs::read_to_string(self.folder.join("log"))
                .unwrap_or_default()
                .contains(text)
        });
    }

    fn said(&self, output: &Output) -> Value {
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn an_exit_a_log_and_nothing_else() {
    let case = Case::sh("echo out; echo err >&2; exit 3");
    let begin = Instant::now();
    let ending = case.finish();
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(
        (ending["exit"].clone(), ending["signal"].clone()),
        (3.into(), Value::Null)
    );
    assert_eq!(ending["left"], 0);
    assert!(ending["peak_resident"].as_u64().unwrap() > 100_000);
    assert_eq!(fs::read(case.folder.join("log")).unwrap(), b"out\nerr\n");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_with_its_children() {
    let case =
        Case::sh("trap '' TERM; (trap '' TERM; sleep 300) & echo ready; sleep 300; sleep 300");
    let mut child = case.start();
    case.wait_for_log("ready");
    fs::write(case.folder.join("stop"), "cancelled").unwrap();
    signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
    let ending = case.ending();
    assert_eq!(
        (ending["why"].clone(), ending["killed"].clone()),
        ("cancelled".into(), true.into())
    );
    assert_eq!(ending["signal"], 9);
    assert!(ending["ran_ms"].as_u64().unwrap() >= 300);
}

#[test]
fn a_program_that_ends_when_asked_is_not_killed() {
    let case = Case::sh("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
    let mut child = case.start();
    case.wait_for_log("ready");
    fs::write(case.folder.join("stop"), "suspended").unwrap();
    signal(child.id(), Signal::TERM);
    child.wait().unwrap();
    let ending = case.ending();
    assert_eq!(
        (ending["why"].clone(), ending["killed"].clone()),
        ("suspended".into(), false.into())
    );
    assert_eq!(ending["exit"], 0);
    case.wait_for_log("saved");
}

#[test]
fn a_stop_that_was_there_before_starts_nothing() {
    let case = Case::sh("echo ran");
    fs::write(case.folder.join("stop"), "cancelled").unwrap();
    let ending = case.finish();
    assert_eq!(ending["why"], "cancelled");
    assert!(!case.folder.join("log").exists());
}

#[test]
fn a_sigterm_without_a_reason_ends_it_as_terminated() {
    let case = Case::sh("echo ready; sleep 300");
    let mut child = case.start();
    case.wait_for_log("ready");
    signal(child.id(), Signal::TERM);
    child.wait().unwrap();
    assert_eq!(case.ending()["why"], "terminated");
}

#[test]
fn daemons_that_it_leaves_are_ended_too() {
    let daemon = "setsid sh -c 'trap \"\" TERM; echo daemon; sleep 300; sleep 300' &";
    let case = Case::sh(&format!("({daemon}) ; sleep 0.2; exit 0"));
    let ending = case.finish();
    assert_eq!(ending["exit"], 0);
    assert!(ending["left"].as_u64().unwrap() >= 1, "{ending}");
}

#[test]
fn the_time_limit_is_kept() {
    let case = Case::sh("sleep 300").with("time_limit_ms", 250.into());
    let ending = case.finish();
    assert_eq!(
        (ending["why"].clone(), ending["signal"].clone()),
        ("time_limit".into(), 15.into())
    );
    let ran = ending["ran_ms"].as_u64().unwrap();
    assert!((250..5000).contains(&ran), "{ran}");
}

#[test]
fn two_hundred_megabytes_and_one_long_line() {
    let case =
        Case::sh("head -c 10000000 /dev/zero | tr '\\0' x; echo; head -c 200000000 /dev/zero");
    assert_eq!(case.finish()["exit"], 0);
    assert_eq!(
        fs::metadata(case.folder.join("log")).unwrap().len(),
        210_000_001
    );
}

#[test]
fn bytes_that_are_no_text() {
    let case = Case::sh("printf 'a\\377\\376\\000b'");
    case.finish();
    assert_eq!(fs::read(case.folder.join("log")).unwrap(), b"a\xff\xfe\0b");
}

#[test]
fn memory_of_the_whole_tree_is_sampled() {
    let hold = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 0.7";
    let case = Case::sh(&format!("({hold}) & ({hold}) & wait"));
    let ending = case.finish();
    let peak = ending["peak_resident"].as_u64().unwrap();
    assert!(peak > 75_000_000, "{peak}");
    assert!(
        fs::read_to_string(case.folder.join("samples"))
            .unwrap()
            .lines()
            .count()
            > 2
    );
}

#[test]
fn a_program_that_cannot_be_started_says_what_to_do() {
    let missing = Case::new(&["/no/such/program"]).finish();
    assert!(
        missing["not_started"]
            .as_str()
            .unwrap()
            .contains("does not exist on this host")
    );
    let not_executable = Case::new(&["/etc/passwd"]).finish();
    assert!(
        not_executable["not_started"]
            .as_str()
            .unwrap()
            .contains("chmod +x")
    );
    let case = Case::new(&["/bin/true"]).with("secrets", json!({"TOKEN": "/no/such/secret"}));
    let text = case.finish()["not_started"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("could not read the secret TOKEN from /no/such/secret"),
        "{text}"
    );
}

#[test]
fn secrets_reach_the_program_and_no_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("token");
    fs::write(&path, "s3cret-value\n").unwrap();
    let case = Case::sh("test ${#TOKEN} = 12 && test -z \"$CARGO\" && echo \"$PASSED\"");
    let case = case
        .with("secrets", json!({"TOKEN": path}))
        .with("pass_env", json!(["PASSED"]));
    let status = case
        .command()
        .env("PASSED", "yes")
        .env("CARGO", "no")
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(case.ending()["exit"], 0);
    assert_eq!(fs::read(case.folder.join("log")).unwrap(), b"yes\n");
    for file in fs::read_dir(&case.folder).unwrap().flatten() {
        let text = fs::read(file.path()).unwrap();
        assert!(
            !String::from_utf8_lossy(&text).contains("s3cret-value"),
            "{:?}",
            file.path()
        );
    }
}

#[test]
fn a_second_shepherd_does_nothing() {
    let case = Case::sh("echo ready; sleep 0.5");
    let mut first = case.start();
    case.wait_for_log("ready");
    assert!(case.command().status().unwrap().success(), "while it runs");
    first.wait().unwrap();
    let ending = case.ending();
    assert!(case.command().status().unwrap().success(), "after it ended");
    assert_eq!(case.ending(), ending);
    assert_eq!(fs::read(case.folder.join("log")).unwrap(), b"ready\n");
}

#[test]
fn the_program_dies_with_its_shepherd() {
    let case = Case::sh("echo ready; exec sleep 300");
    let mut child = case.start();
    case.wait_for_log("ready");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program is gone", || living(&case.folder).is_empty());
    assert!(!case.folder.join("ending.json").exists());
}

/// Root may write anywhere, so this runs as nobody where it can.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let case = Case::sh("exit 0");
    let mut command = case.command();
    let program = case.folder.with_file_name("shepherd");
    // Not by this process: a child that another test starts just then would hold the copy open for writing.
    let copied = Command::new("cp").arg(shepherd()).arg(&program).status();
    assert!(copied.unwrap().success());
    if rustix::process::geteuid().is_root() {
        command = Command::new(&program);
        command
            .arg("shepherd")
            .arg(&case.folder)
            .uid(65534)
            .gid(65534);
    }
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    for path in case.folder.ancestors().take(2) {
        fs::set_permissions(path, mode(0o555)).unwrap();
    }
    let output = command.output().unwrap();
    for path in case.folder.ancestors().take(2) {
        fs::set_permissions(path, mode(0o755)).unwrap();
    }
    assert!(!output.status.success());
    let said = case.said(&output);
    let text = said["not_started"].as_str().unwrap();
    assert!(
        text.contains("could not open") && text.contains("Permission denied"),
        "{text}"
    );
}

#[test]
fn a_full_disk_is_named() {
    // /dev/full stands for it: every write to the log fails, everything else works.
    let case = Case::sh("echo lost || exit 9");
    std::os::unix::fs::symlink("/dev/full", case.folder.join("log")).unwrap();
    let ending = case.finish();
    assert_eq!(ending["exit"], 9);
}
