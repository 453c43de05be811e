//! Asking the binary, and what its answers must have in common.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

pub const HOME_RECIPE: [&str; 8] = [
    "quant=nf4",
    "rank=112",
    "dropout=0.1",
    "seq_len=7177",
    "response_len=237",
    "optimizer=adamw_8bit",
    "rslora=true",
    r#"memory_fixes=["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"]"#,
];

pub fn sweep(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
    for variable in ["SWEEP_DATA", "SWEEP_COORDINATOR", "SWEEP_LOG", "SWEEP_KIT"] {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

pub fn ask(words: &[&str]) -> Output {
    sweep(words).output().unwrap()
}

/// `sweep vram predict` of the program's own recipe.
pub fn predict(words: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = ["vram", "predict", "--model", "unsloth/gemma-3-4b-it"]
        .map(str::to_owned)
        .into();
    for setting in HOME_RECIPE {
        all.extend(["--set".to_owned(), setting.to_owned()]);
    }
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all
}

pub fn ask_prediction(words: &[&str]) -> Output {
    let all = predict(words);
    ask(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn json_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn text_of(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}\n{text}");
    }
    text
}

/// Exit code 2, nothing on stdout, and these words.
#[track_caller]
pub fn refused(words: &[&str], says: &[&str]) {
    refused_by(&ask(words), &words.join(" "), says);
}

#[track_caller]
pub fn refused_by(output: &Output, words: &str, says: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    for part in says {
        assert!(said.contains(part), "{words}: no `{part}` in: {said}");
    }
}

pub fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../vram")
        .join(name)
}

pub fn plain(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names
}

/// As it comes out of its text: reading a number back may lose its last bit.
pub fn read_back(document: impl serde::Serialize) -> Value {
    serde_json::from_str(&json!(document).to_string()).unwrap()
}

/// Fields are only ever added.
#[track_caller]
pub fn has(value: &Value, wanted: &[&str]) {
    let found = names(value);
    for name in wanted {
        assert!(found.contains(name), "no `{name}` in {found:?}");
    }
}

pub const PREDICTION: [&str; 18] = [
    "key",
    "mode",
    "device",
    "source",
    "verdict",
    "terms",
    "allocated_mib",
    "reserved_mib",
    "context_mib",
    "need_mib",
    "band_mib",
    "usable_mib",
    "held_mib",
    "stages",
    "after_load_mib",
    "pre_step_mib",
    "replayed",
    "would_fit",
];

pub const REPLAYED: [&str; 6] = [
    "allocated_mib",
    "reserved_mib",
    "status",
    "oom_wanted_mib",
    "events",
    "alive_at_peak",
];
