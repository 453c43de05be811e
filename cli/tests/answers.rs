//! The binary against a coordinator that says what it is told to: exit codes, one document on stdout, and what
//! happens when the coordinator goes away in the middle.

mod fake;

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fake::{Fake, SWEEP, Script, line, settled};
use proto::v1::LogsReply;
use serde_json::Value;

const FILE: &str = r#"
[sweep]
name = "night"
[axes]
rank = [1]
[train]
run = ["true"]
[place]
device = "cpu"
memory = "1 MiB"
"#;

fn sweep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
    for variable in ["SWEEP_DATA", "SWEEP_COORDINATOR", "SWEEP_LOG", "SWEEP_KIT"] {
        command.env_remove(variable);
    }
    command
}

fn ask(url: &str, words: &[&str]) -> Output {
    sweep()
        .args(["--coordinator", url])
        .args(words)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(folder: &Path, text: &str) -> String {
    let path = folder.join("night.toml");
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn errors_have_their_codes_and_stdout_stays_empty() {
    let fake = Fake::start(Script::default());
    let gone = Fake::start(Script::default());
    let nobody = gone.url();
    drop(gone);
    let cases: [(&str, &[&str], i32, &str); 8] = [
        (&fake.url(), &["show", "day"], 2, "bad_input"),
        (&fake.url(), &["watch", "day"], 2, "bad_input"),
        (&fake.url(), &["cancel", SWEEP], 4, "refused"),
        (&fake.url(), &["why", "night/1/train"], 1, "failed"),
        (&nobody, &["list"], 3, "unreachable"),
        (&nobody, &["watch", SWEEP], 3, "unreachable"),
        ("https://127.0.0.1:1", &["list"], 4, "refused"),
        ("nonsense", &["list"], 2, "bad_input"),
    ];
    for (url, words, wanted, word) in cases {
        let output = ask(url, &[words, &["--json"]].concat());
        assert_eq!(code(&output), wanted, "{words:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{words:?}");
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["code"], word, "{words:?}");
        let output = ask(url, words);
        assert_eq!(code(&output), wanted, "{words:?}");
        assert!(
            stderr(&output).starts_with("error: "),
            "{words:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn submit_prints_the_id_alone_or_one_document() {
    let fake = Fake::start(Script::default());
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), FILE);
    let output = ask(&fake.url(), &["submit", &file]);
    assert_eq!(
        (code(&output), stdout(&output)),
        (0, format!("{SWEEP}\n")),
        "{}",
        stderr(&output)
    );
    let output = ask(&fake.url(), &["submit", &file, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["sweep"]["id"], SWEEP);
    let sent = fake.submissions.lock().unwrap();
    assert_eq!(sent.len(), 2);
    assert_ne!(sent[0].submission, sent[1].submission);
    assert_eq!(sent[0].file.as_ref().unwrap().toml, FILE.as_bytes());
}

#[test]
fn a_wrong_file_is_shown_with_its_places_and_never_sent() {
    let fake = Fake::start(Script::default());
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &FILE.replace("device =", "devise ="));
    for verb in ["check", "submit", "plan", "run"] {
        let output = ask(&fake.url(), &[verb, &file]);
        assert_eq!(code(&output), 2, "{verb}");
        assert!(
            stderr(&output).contains("night.toml:9"),
            "{verb}: {}",
            stderr(&output)
        );
        let output = ask(&fake.url(), &[verb, &file, "--json"]);
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["items"][0]["line"], 9, "{verb}");
    }
    assert!(fake.submissions.lock().unwrap().is_empty());
}

#[test]
fn watch_survives_a_restart_and_returns_the_sweeps_code() {
    let script = Script {
        watch: vec![line("2026-12-02T04:00:01.000Z", "started")],
        outcome: "failed",
        exit_code: 1,
        ..Script::default()
    };
    let before = Fake::start(script.clone());
    let address = before.address;
    let mut watching = sweep()
        .args(["--coordinator", &before.url(), "watch", "night"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = watching.stdout.take().unwrap();
    let mut first = [0; 9];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"04:00:01 ");

    drop(before);
    std::thread::sleep(Duration::from_millis(700));
    // What was said before the restart is said again: it is not shown twice.
    let after = Script {
        watch: vec![
            line("2026-12-02T04:00:01.000Z", "started"),
            settled(&script),
        ],
        ..script
    };
    let _after = Fake::start_at(address, after);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(1), "{rest}");
    assert_eq!(rest.matches("started").count(), 1, "{rest}");
    assert!(
        rest.contains("04:00:09 night-abcdef/1/train ended"),
        "{rest}"
    );
    assert!(rest.contains("night-abcdef: failed"), "{rest}");
}

#[test]
fn watch_as_json_is_one_document() {
    let mut script = Script {
        outcome: "succeeded",
        ..Script::default()
    };
    script.watch = vec![
        line("2026-12-02T04:00:01.000Z", "started"),
        settled(&script),
    ];
    let fake = Fake::start(script);
    let output = ask(&fake.url(), &["watch", SWEEP, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["sweep"]["state"], "succeeded");
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
    assert_eq!(
        stdout(&ask(&fake.url(), &["show", SWEEP, "--json"])),
        stdout(&output)
    );
}

#[test]
fn a_followed_log_goes_on_after_a_restart_without_a_byte_twice() {
    let reply = |attempt: &str, data: &[u8]| LogsReply {
        attempt: attempt.into(),
        data: data.to_vec(),
    };
    let attempt = "night-abcdef/1/train/1";
    let before = Fake::start(Script {
        logs: vec![reply(attempt, b"one \xff "), reply("", b"two ")],
        logs_stay_open: true,
        ..Script::default()
    });
    let address = before.address;
    let mut reading = sweep()
        .args([
            "--coordinator",
            &before.url(),
            "logs",
            "night-abcdef/1/train",
            "--follow",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = reading.stdout.take().unwrap();
    let mut first = [0; 10];
    out.read_exact(&mut first).unwrap();
    drop(before);
    let _after = Fake::start_at(
        address,
        Script {
            logs: vec![reply(attempt, b"one \xff two th"), reply("", b"ree")],
            ..Script::default()
        },
    );
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!([&first[..], &rest].concat(), b"one \xff two three");
    assert_eq!(reading.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let fake = Fake::start(Script::default());
    for words in [
        &["list", "--limit", "0"][..],
        &["list", "--json"],
        &["completions", "bash"],
    ] {
        let mut child = sweep()
            .args(["--coordinator", &fake.url()])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), stderr(&output)),
            (0, String::new()),
            "{words:?}"
        );
    }
}

#[test]
fn a_coordinator_for_the_whole_network_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = sweep()
        .arg("--data")
        .arg(folder.path())
        .args(["coordinator", "run", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 4);
    assert!(
        stderr(&output).contains("sweep coordinator init"),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
