//! `sweep vram evaluate`.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::json;

use crate::said::*;

#[test]
fn an_evaluation_is_the_librarys() {
    let folder = tempfile::tempdir().unwrap();
    let few = |name: &str, many| {
        let all = std::fs::read_to_string(shipped(name)).unwrap();
        let lines: Vec<&str> = all.lines().take(many).collect();
        let path = folder.path().join(name.replace('/', "-"));
        std::fs::write(&path, lines.join("\n")).unwrap();
        (path, lines.join("\n"))
    };
    let ((t4, rows), (h200, others)) = (few("data/t4.jsonl", 16), few("data/h200.jsonl", 6));
    let answer = json_of(&ask(&["vram", "evaluate", plain(&t4), "--json"]));
    has(&answer, &["rows", "summary"]);
    let line = [
        "line",
        "model",
        "gpu",
        "quant",
        "rank",
        "batch",
        "seq_len",
        "predicted_allocated_mib",
        "measured_allocated_mib",
        "allocated_error_pct",
        "predicted_reserved_mib",
        "measured_reserved_mib",
        "reserved_error_pct",
        "predicted_pre_step_mib",
        "measured_pre_step_mib",
        "pre_step_error_pct",
        "predicted_after_load_mib",
        "limit_mib",
        "verdict",
        "predicted_oom_wanted_mib",
        "status",
        "source",
    ];
    has(&answer["rows"][0], &line);
    has(
        &answer["summary"],
        &["n", "allocated", "reserved", "pre_step", "verdicts"],
    );
    has(
        &answer["summary"]["allocated"],
        &["n", "median_pct", "p90_pct", "max_pct"],
    );
    let library = |learn: &[&str], leave| json!(vram::evaluate(&rows, learn, leave).unwrap());
    assert_eq!(answer, library(&[], false));
    let words = [
        "vram",
        "evaluate",
        plain(&t4),
        "--learn-from",
        plain(&h200),
        "--json",
    ];
    assert_eq!(json_of(&ask(&words)), library(&[&others], false));
    let words = ["vram", "evaluate", plain(&t4), "--leave-one-out", "--json"];
    assert_eq!(json_of(&ask(&words)), library(&[], true));
    let text = text_of(&ask(&["vram", "evaluate", plain(&t4)]));
    assert!(text.starts_with("16 rows; absolute errors\n"), "{text}");
    assert!(text.contains("farthest off"), "{text}");
}

#[test]
fn rows_come_from_standard_input_too() {
    let row = std::fs::read_to_string(shipped("data/t4.jsonl")).unwrap();
    let row = row.lines().next().unwrap();
    let output = with_input(&["vram", "evaluate", "-", "--json"], &format!("\n{row}\n"));
    assert_eq!(json_of(&output)["rows"][0]["line"], 2);
    let output = with_input(&["vram", "evaluate", "-"], "{}\n");
    let says = "standard input:1: model_config is missing";
    refused_by(&output, "-", &[says]);
    let none = with_input(&["vram", "evaluate", "-", "--json"], "");
    assert_eq!(json_of(&none)["summary"]["n"], 0);
}

fn with_input(words: &[&str], input: &str) -> Output {
    let mut child = sweep(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_bad_row_is_named_with_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read_to_string(shipped("data/t4.jsonl")).unwrap();
    let good = good.lines().next().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let fine = file("fine.jsonl", good);
    let bad = file(
        "bad.jsonl",
        &format!("{good}\n\n{}\n", good.replacen(": 32", ": \"x\"", 1)),
    );
    let says = ["bad.jsonl:3: invalid type: string \"x\"", "at column"];
    refused(&["vram", "evaluate", plain(&bad)], &says);
    let words = [
        "vram",
        "evaluate",
        plain(&fine),
        "--learn-from",
        plain(&fine),
        "--learn-from",
        plain(&bad),
    ];
    refused(&words, &says);
    refused(&["vram", "evaluate", "/no/such.jsonl"], &["/no/such.jsonl"]);
    refused(
        &["vram", "evaluate", plain(folder.path())],
        &[plain(folder.path())],
    );
}
