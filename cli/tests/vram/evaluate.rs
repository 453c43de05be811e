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

/// In the place of the kit: one row is rehearsed, one is refused, of one nothing is said.
const KIT: &str = r#"
import json, pathlib, sys
words = sys.argv[1:]
rows, folder = words[words.index("--rows") + 1], pathlib.Path(words[words.index("--out-dir") + 1])
first = json.loads(pathlib.Path(rows).read_text().splitlines()[0])
assert first["model_config"]["model_type"] in ("llama", "gpt2"), first
(folder / "one.gz").write_text("a 104857600\nm 1\na 1048576\nm 2\na 2097152\nm 3\nm 4\n")
print("a library says something")
print(json.dumps({"line": 1, "stream": "one.gz", "doubts": ["never compared"], "seconds": 3.5, "host_peak_mib": 600,
                  "versions": {"torch": "9.9"}}))
print(json.dumps({"line": 2, "stream": None, "error": "bad_recipe", "message": "no such model"}))
"#;

fn with_kit(program: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sweep_report.py"), "").unwrap();
    std::fs::write(folder.path().join("rehearse.py"), program).unwrap();
    let row =
        r#"{"model": "llama-3.2-1b", "seq_len": 512, "rank": 8, "peak_allocated_mib": 103.0}"#;
    let rows = format!("{row}\n{row}\n\n{row}\n");
    std::fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
    folder
}

fn rehearsed(folder: &tempfile::TempDir, more: &[&str]) -> Output {
    let (rows, cache) = (
        folder.path().join("rows.jsonl"),
        folder.path().join("cache"),
    );
    let words = [
        "vram",
        "evaluate",
        plain(&rows),
        "--rehearse",
        "--cache",
        plain(&cache),
    ];
    let mut command = sweep(&[&words[..], more].concat());
    command.env("SWEEP_KIT", folder.path()).output().unwrap()
}

#[test]
fn a_rehearsed_row_is_predicted_from_its_stream_and_the_others_not_at_all() {
    let folder = with_kit(KIT);
    let answer = json_of(&rehearsed(&folder, &["--json"]));
    let rows = &answer["rows"];
    assert_eq!(
        (&rows[0]["source"], &rows[0]["predicted_allocated_mib"]),
        (&json!("rehearsed"), &json!(103.0))
    );
    assert_eq!(rows[0]["predicted_forward_peak_mib"], 101.0);
    for row in [1, 2] {
        assert_eq!(rows[row]["source"], "unknown", "{answer}");
        assert_eq!(rows[row]["predicted_allocated_mib"], json!(null));
    }
    let rehearsal = json!({
        "streams": 1, "versions": {"torch": "9.9"}, "longest_seconds": 3.5, "most_host_mib": 600.0,
        "doubts": [{"line": 1, "message": "never compared"}],
        "failed": [{"line": 2, "message": "no such model"}, {"line": 4, "message": "the kit said nothing of it"}],
    });
    assert_eq!(answer["rehearsal"], rehearsal);
    let text = text_of(&rehearsed(&folder, &[]));
    assert!(
        text.contains("row 2 was not rehearsed: no such model"),
        "{text}"
    );
    let left = std::fs::read_dir(folder.path().join("cache")).unwrap();
    assert_eq!(left.count(), 1, "the table that was handed over is gone");
}

/// A family whose layers the shapes do not tell, with names of its own: the kit's answer stands by itself.
#[test]
fn a_model_that_only_the_kit_can_read_is_predicted_from_its_stream() {
    let folder = with_kit(KIT);
    let config = r#"{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "vocab_size": 100}"#;
    let row = format!(
        r#"{{"model_config": {config}, "targets": ["c_attn"], "seq_len": 512, "rank": 8, "limit_mib": 500}}"#
    );
    std::fs::write(folder.path().join("rows.jsonl"), format!("{row}\n{row}\n")).unwrap();
    let answer = json_of(&rehearsed(&folder, &["--json"]));
    let rows = &answer["rows"];
    assert_eq!(rows[0]["predicted_allocated_mib"], 103.0, "{answer}");
    assert_eq!(rows[0]["verdict"], "fits");
    assert_eq!(rows[1]["source"], "unknown");
    assert_eq!(rows[1]["verdict"], "uncertain");
    // Where nothing could be rehearsed, a script must not take it for an answer.
    let folder_of_none = with_kit(
        "import json, sys\nprint(json.dumps({'line': 1, 'error': 'bad_recipe', 'message': 'no'}))",
    );
    let none = rehearsed(&folder_of_none, &["--json"]);
    assert_eq!(
        none.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&none.stderr)
    );
    // What was measured of it must still be possible.
    let bad = row.replace("500}", "500, \"peak_allocated_mib\": -3}");
    std::fs::write(folder.path().join("rows.jsonl"), format!("{bad}\n")).unwrap();
    refused_by(
        &rehearsed(&folder, &[]),
        "peak_allocated_mib",
        &["rows.jsonl", "which no machine has"],
    );
}

#[test]
fn what_keeps_rows_from_being_rehearsed_is_said() {
    let missing = "import json, sys\nprint(json.dumps({'error': 'missing_package', 'package': 'peft'}))\nsys.exit(69)";
    let output = rehearsed(&with_kit(missing), &[]);
    refused_by(
        &output,
        "--rehearse",
        &["lacks the kit's packages (peft)", "setup"],
    );
    let output = rehearsed(&with_kit("import sys; sys.exit('no space left')"), &[]);
    refused_by(
        &output,
        "--rehearse",
        &["rehearse.py ended with", "no space left"],
    );
    let damaged = KIT.replace("a 104857600", "f 7");
    let output = rehearsed(&with_kit(&damaged), &[]);
    refused_by(
        &output,
        "--rehearse",
        &["one.gz", "remove it, and it is made again"],
    );
}

#[test]
fn what_follows_the_first_row_learns_from_it() {
    let rows = std::fs::read_to_string(shipped("data/t4.jsonl")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let three: Vec<&str> = rows.lines().take(3).collect();
    std::fs::write(&path, three.join("\n")).unwrap();
    let answer = json_of(&ask(&[
        "vram",
        "evaluate",
        plain(&path),
        "--learn-first",
        "--json",
    ]));
    let sources: Vec<&str> = (0..3)
        .map(|at| answer["rows"][at]["source"].as_str().unwrap())
        .collect();
    assert_eq!(sources, ["replayed", "learned", "learned"]);
}
