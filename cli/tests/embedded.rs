//! The binary without a coordinator: on an empty data folder, and on one that it writes itself.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const FILE: &str = r#"
[sweep]
name = "night"
[axes]
rank = [1, 2]
[train]
run = ["true"]
[place]
device = "cpu"
memory = "1 MiB"
"#;

fn ask(data: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
    for variable in ["SWEEP_COORDINATOR", "SWEEP_LOG", "SWEEP_KIT"] {
        command.env_remove(variable);
    }
    command
        .env("SWEEP_DATA", data)
        .args(words)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

#[test]
fn reading_nothing_says_so_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("not-there");
    assert_eq!(stdout(&ask(&data, &["list"])), "no sweeps\n");
    assert_eq!(stdout(&ask(&data, &["history"])), "no attempts\n");
    assert_eq!(stdout(&ask(&data, &["hosts"])), "no hosts\n");
    assert_eq!(
        json(&ask(&data, &["history", "--json"]))["attempts"],
        serde_json::json!([])
    );
    assert_eq!(
        json(&ask(&data, &["list", "--json"]))["sweeps"],
        serde_json::json!([])
    );
    for words in [
        &["show", "x"][..],
        &["coordinator", "verify"],
        &["host", "show", "x"],
        &["watch", "x"],
    ] {
        assert_eq!(ask(&data, words).status.code(), Some(2), "{words:?}");
    }
    assert!(!data.exists());
}

#[test]
fn a_sweep_is_stored_found_again_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("night.toml");
    std::fs::write(&file, FILE).unwrap();
    let submitted = ask(&data, &["submit", &file.to_string_lossy()]);
    let id = stdout(&submitted).trim().to_owned();
    assert!(id.starts_with("night-"), "{id}");
    assert!(String::from_utf8_lossy(&submitted.stderr).contains("nothing will run"));

    assert_eq!(
        json(&ask(&data, &["list", "--json"]))["sweeps"][0]["id"],
        id.as_str()
    );
    let shown = json(&ask(&data, &["show", "night", "--json"]));
    assert_eq!(shown["trials"][1]["params"]["rank"], 2);
    assert!(stdout(&ask(&data, &["show", "night"])).contains("1/train"));
    // Nobody works for it: waiting would be for ever.
    assert_eq!(ask(&data, &["watch", "night"]).status.code(), Some(3));

    let cancelled = json(&ask(&data, &["cancel", &id, "--json"]));
    assert_eq!(cancelled["jobs"].as_array().map(Vec::len), Some(2));
    assert_eq!(ask(&data, &["watch", "night"]).status.code(), Some(1));
    assert!(stdout(&ask(&data, &["results", "night"])).contains("cancelled"));
}

#[test]
fn the_store_is_checked_copied_and_brought_back() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy, back) = (
        folder.path().join("data"),
        folder.path().join("copy"),
        folder.path().join("back"),
    );
    let file = folder.path().join("night.toml");
    std::fs::write(&file, FILE).unwrap();
    let id = stdout(&ask(&data, &["submit", &file.to_string_lossy()]));
    assert_eq!(
        json(&ask(&data, &["coordinator", "verify", "--json"]))["sound"],
        true
    );
    assert!(stdout(&ask(&data, &["coordinator", "compact"])).contains("records"));
    let to = copy.to_string_lossy().into_owned();
    assert!(stdout(&ask(&data, &["coordinator", "backup", &to])).contains("backup in"));
    // Not over something that is there.
    assert_eq!(
        ask(&data, &["coordinator", "backup", &to]).status.code(),
        Some(4)
    );
    assert!(stdout(&ask(&back, &["coordinator", "restore", &to])).contains("restored"));
    assert_eq!(
        json(&ask(&back, &["list", "--json"]))["sweeps"][0]["id"],
        id.trim()
    );
}
