//! `sweep vram ...` through the binary: the promised names in its JSON, the library's own numbers, and what each wrong
//! word is told.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use vram::{
    Bytes, DeviceClass, Knowledge, Mode, ReplaySettings, Settings, Stream, Workload, known_card,
};

const HOME_RECIPE: [&str; 8] = [
    "quant=nf4",
    "rank=112",
    "dropout=0.1",
    "seq_len=7177",
    "response_len=237",
    "optimizer=adamw_8bit",
    "rslora=true",
    r#"memory_fixes=["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"]"#,
];

fn sweep(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
    for variable in ["SWEEP_DATA", "SWEEP_COORDINATOR", "SWEEP_LOG", "SWEEP_KIT"] {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

fn ask(words: &[&str]) -> Output {
    sweep(words).output().unwrap()
}

/// `sweep vram predict` of the program's own recipe.
fn predict(words: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = ["vram", "predict", "--model", "unsloth/gemma-3-4b-it"]
        .map(str::to_owned)
        .into();
    for setting in HOME_RECIPE {
        all.extend(["--set".to_owned(), setting.to_owned()]);
    }
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all
}

fn ask_prediction(words: &[&str]) -> Output {
    let all = predict(words);
    ask(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

fn json_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text_of(output: &Output) -> String {
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
fn refused(words: &[&str], says: &[&str]) {
    refused_by(&ask(words), &words.join(" "), says);
}

#[track_caller]
fn refused_by(output: &Output, words: &str, says: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    for part in says {
        assert!(said.contains(part), "{words}: no `{part}` in: {said}");
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../vram")
        .join(name)
}

fn plain(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(value: &Value) -> Vec<&str> {
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
fn read_back(document: impl serde::Serialize) -> Value {
    serde_json::from_str(&json!(document).to_string()).unwrap()
}

/// Fields are only ever added.
#[track_caller]
fn has(value: &Value, wanted: &[&str]) {
    let found = names(value);
    for name in wanted {
        assert!(found.contains(name), "no `{name}` in {found:?}");
    }
}

const PREDICTION: [&str; 18] = [
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

const REPLAYED: [&str; 6] = [
    "allocated_mib",
    "reserved_mib",
    "status",
    "oom_wanted_mib",
    "events",
    "alive_at_peak",
];

/// The library's answer to the program's own recipe.
fn library(class: &DeviceClass, usable: f64, held: f64, mode: Mode) -> Value {
    let settings: Settings = serde_json::from_value(json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.1, "seq_len": 7177,
        "response_len": 237, "optimizer": "adamw_8bit", "rslora": true,
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    }))
    .unwrap();
    let load = vram::DeviceLoad {
        usable: Bytes::from_mib(usable),
        held: Bytes::from_mib(held),
    };
    let workload = Workload::new(mode, &settings, None).unwrap();
    json!(vram::predict(&workload, class, &load, &Knowledge::seeds()))
}

#[test]
fn a_prediction_is_the_librarys() {
    let card = known_card("3070 Ti").unwrap();
    let answer = json_of(&ask_prediction(&["--device", "3070 ti", "--json"]));
    has(&answer, &PREDICTION);
    has(&answer["terms"][0], &["name", "mib", "mark"]);
    has(&answer["stages"][0], &["name", "allocated_mib"]);
    has(&answer["replayed"], &REPLAYED);
    has(
        &answer["would_fit"][0],
        &["change", "settings", "need", "band"],
    );
    assert_eq!(
        answer,
        library(&card.class("linux"), 7833.6, 0.0, Mode::Train)
    );
    assert_eq!(
        (answer["verdict"].as_str(), answer["mode"].as_str()),
        (Some("too_large"), Some("train"))
    );

    let words = [
        "--device",
        "3070 Ti",
        "--held-mib",
        "500",
        "--mode",
        "probe",
        "--json",
    ];
    let answer = json_of(&ask_prediction(&words));
    assert_eq!(
        answer,
        library(&card.class("linux"), 7833.6, 500.0, Mode::Probe)
    );
    // Neither is the name of a card.
    let words = ["--usable-mib", "7833.6", "--os", "windows", "--json"];
    let answer = json_of(&ask_prediction(&words));
    let class = DeviceClass {
        name: "cuda".into(),
        ..card.class("windows")
    };
    assert_eq!(answer, library(&class, 7833.6, 0.0, Mode::Train));
    assert_eq!(answer["verdict"], "spills");
}

#[test]
fn a_prediction_reads_as_a_table() {
    let text = text_of(&ask_prediction(&["--device", "3070 Ti"]));
    let first = "train of unsloth/gemma-3-4b-it on NVIDIA GeForce RTX 3070 Ti: too_large\n";
    assert!(text.starts_with(first), "{text}");
    for part in [
        "weights ",
        "computed",
        "learned",
        "allocated ",
        "reserved ",
        "context ",
        "rests on: learned",
        "room ",
        "usable - held",
        "short by",
        "give or take",
        "STAGE",
        "rehearsed and replayed in 7600.1 MiB",
        "ALIVE AT THE PEAK",
        "would fit:\n  ",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let text = text_of(&ask_prediction(&["--device", "4080"]));
    assert!(
        text.contains("usable memory assumed: total - 358.4 MiB"),
        "{text}"
    );
}

#[test]
fn without_a_device_every_known_card_is_a_row() {
    let answer = json_of(&ask_prediction(&["--json"]));
    let all = answer["predictions"].as_array().unwrap();
    assert_eq!(all.len(), vram::known_cards().len());
    has(&all[0], &PREDICTION);
    has(&all[0], &["host", "devices", "simulated"]);
    let usable: Vec<f64> = all
        .iter()
        .map(|one| one["usable_mib"].as_f64().unwrap())
        .collect();
    assert!(usable.is_sorted(), "{usable:?}");
    let words = ["--backend", "rocm", "--json"];
    let answer = json_of(&ask_prediction(&words));
    let devices = answer["predictions"].as_array().unwrap().iter();
    assert!(devices.clone().count() > 1);
    assert!(
        devices
            .into_iter()
            .all(|one| one["device"].as_str().unwrap().starts_with("AMD "))
    );
    let text = text_of(&ask_prediction(&[]));
    assert!(
        text.contains("RTX 3070 Ti ") && text.contains("~ assumed"),
        "{text}"
    );
}

#[test]
fn a_model_of_ones_own_is_predicted_from_its_config() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let shape = json!({
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128_256,
        "tie_word_embeddings": true,
    });
    std::fs::write(&config, shape.to_string()).unwrap();
    let words = |target: &[&'static str]| {
        let first = [
            "vram",
            "predict",
            "--config",
            plain(&config),
            "--set",
            "seq_len=2048",
        ];
        ask(&[&first[..], target, &["--json"]].concat())
    };
    let own = json_of(&words(&["--device", "T4"]));
    assert_eq!(own["source"], "computed");
    // The same shape has a name.
    let first = [
        "vram",
        "predict",
        "--model",
        "llama-3.2-1b",
        "--set",
        "seq_len=2048",
    ];
    let known = json_of(&ask(&[&first[..], &["--device", "T4", "--json"]].concat()));
    assert_eq!(own["terms"], known["terms"]);
    assert_eq!(own["need_mib"], known["need_mib"]);
}

#[test]
fn wrong_predictions_are_refused_with_the_reason() {
    let predict = |words: &[&str], says: &[&str]| {
        refused(&[&["vram", "predict"], words].concat(), says);
    };
    let model = ["--model", "gemma-3-4b-it"];
    let with = |words: &[&str], says: &[&str]| predict(&[&model[..], words].concat(), says);
    with(
        &["--set", "rnak=8"],
        &["unknown setting `rnak`", "did you mean `rank`"],
    );
    with(
        &["--set", "rank=many"],
        &["setting `rank`", "whole number", "many"],
    );
    with(&["--set", "rank=null"], &["setting `rank`"]);
    with(&["--set", "dropout=nan"], &["setting `dropout`"]);
    with(
        &["--set", "rank=1", "--set", "rank=2"],
        &["setting `rank` is given twice"],
    );
    with(&["--set", "rank"], &["`rank` is no setting", "KEY=VALUE"]);
    with(&["--set", "model=x"], &["setting `model`", "--model"]);
    with(
        &["--set", "memory_fixes=[\"faster\"]"],
        &["setting `memory_fixes`", "`faster`"],
    );
    with(
        &["--device", "Voodoo"],
        &["no card is known as `Voodoo`", "RTX 3070 Ti"],
    );
    with(
        &["--device", "RTX 30"],
        &["`RTX 30` may be any of", "RTX 3060 Ti", "RTX 3090"],
    );
    with(
        &["--device", "T4", "--usable-mib", "1000"],
        &["--device", "--usable-mib"],
    );
    with(
        &["--device", "T4", "--backend", "cuda"],
        &["--device", "--backend"],
    );
    with(&["--held-mib", "5"], &["--device", "--usable-mib"]);
    with(&["--usable-mib", "-4"], &["-4"]);
    with(&["--usable-mib", "8GiB"], &["`8GiB` is no number of MiB"]);
    with(&["--backend", "cpu"], &["--usable-mib"]);
    predict(&["--device", "T4"], &["--model"]);
    let wrong = ["--model", "somebody/gemma-3-4b-ti"];
    predict(
        &wrong,
        &[
            "no model is known as",
            "did you mean `gemma-3-4b-it`",
            "--config",
        ],
    );

    let folder = tempfile::tempdir().unwrap();
    let config = |text: &str, says: &[&str]| {
        let path = folder.path().join("config.json");
        std::fs::write(&path, text).unwrap();
        predict(&["--config", plain(&path)], says);
    };
    config("{", &["config.json is not JSON"]);
    config("[]", &["setting `model_config`", "expected an object"]);
    config(
        "{\"model_type\": \"llama\"}",
        &["setting `model_config`", "hidden_size"],
    );
    config(
        &" ".repeat(5 << 20),
        &["config.json is too large", "at most 4 MiB"],
    );
    predict(&["--config", "/no/such.json"], &["/no/such.json"]);

    let words = predict_json(&["--set", "rnak=1"]);
    let output = ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        (
            error["error"]["code"].as_str(),
            error["error"]["exit"].as_i64()
        ),
        (Some("bad_input"), Some(2))
    );
}

fn predict_json(words: &[&str]) -> Vec<String> {
    let mut all = predict(words);
    all.push("--json".to_owned());
    all
}

#[test]
fn what_was_measured_elsewhere_is_learned_from() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rows.jsonl");
    let rows = std::fs::read_to_string(shipped("data/h200.jsonl")).unwrap();
    let first: Vec<&str> = rows.lines().take(8).collect();
    std::fs::write(&table, first.join("\n")).unwrap();
    let recipe = [
        "vram",
        "predict",
        "--model",
        "gemma-3-4b-it",
        "--mode",
        "probe",
        "--set",
        "quant=nf4",
        "--set",
        "rank=48",
        "--set",
        "seq_len=7177",
        "--set",
        "response_len=237",
        "--set",
        "autocast=true",
        "--set",
        "memory_fixes=['chunked_mlp', 'save_on_cpu', 'bf16_lm_head', 'logits_to_keep']",
        "--device",
        "H200",
        "--json",
    ];
    let before = json_of(&ask(&recipe));
    let after = ask(&[&recipe[..], &["--learn-from", plain(&table)]].concat());
    let after = json_of(&after);
    assert_eq!(after["source"], "learned");
    assert_ne!(before["allocated_mib"], after["allocated_mib"]);

    std::fs::write(&table, "{\"seq_len\": 5}\n").unwrap();
    let bad = [&recipe[..], &["--learn-from", plain(&table)]].concat();
    refused(&bad, &["rows.jsonl:1: missing field `model_config`"]);
}

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
    let says = "standard input:1: missing field `model_config` at column 2";
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

#[test]
fn a_replay_is_the_librarys() {
    let (a, b) = (
        shipped("fixtures/gemma3-4b-r104-limit.gz"),
        shipped("fixtures/gemma3-4b-r112-limit.gz"),
    );
    let stream = |path: &Path| Stream::read(&std::fs::read(path).unwrap()).unwrap();
    let settings = |limit: Option<f64>, expandable_segments| ReplaySettings {
        limit: limit.map(Bytes::from_mib),
        expandable_segments,
        alive_at_peak: true,
    };
    let answer = json_of(&ask(&["vram", "replay", "--from", plain(&b), "--json"]));
    has(&answer, &REPLAYED);
    has(&answer["alive_at_peak"][0], &["label", "mib", "blocks"]);
    assert_eq!(
        answer,
        json!(vram::replay(&stream(&b), settings(None, false)))
    );
    assert_eq!(answer["status"], "ok");

    let named = [
        format!("rank=104:{}", plain(&a)),
        format!("rank=112:{}", plain(&b)),
    ];
    let words = [
        "vram",
        "replay",
        "--from",
        &named[0],
        "--from",
        &named[1],
        "--for",
        "rank=128",
        "--limit-mib",
        "7000",
        "--expandable-segments",
        "--json",
    ];
    let answer = json_of(&ask(&words));
    let scaled = vram::scale((&stream(&a), 104), (&stream(&b), 112), 128).unwrap();
    assert_eq!(
        answer,
        json!(vram::replay(&scaled, settings(Some(7000.0), true)))
    );
    // Out of memory is an answer, so the exit code was 0.
    assert_eq!(answer["status"], "oom");
    let text = text_of(&ask(&words[..words.len() - 1]));
    assert!(
        text.starts_with("out of memory within 7000.0 MiB, wanting "),
        "{text}"
    );
    assert!(text.contains("ALIVE AT THE PEAK"), "{text}");

    // Plain text is read as well.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    std::fs::write(&path, "E\nm 1\na 30000000 weights\na 2000000 rest\nf 1\n").unwrap();
    let words = ["vram", "replay", "--from", plain(&path), "--json"];
    let answer = json_of(&ask(&words));
    assert_eq!(
        (answer["allocated_mib"].as_f64(), answer["events"].as_u64()),
        (Some(30.5), Some(5))
    );
    assert_eq!(answer["oom_wanted_mib"], Value::Null);
}

#[test]
fn damaged_streams_and_wrong_combinations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(shipped("fixtures/gemma3-4b-r96-limit-oom.gz")).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let damaged = file("damaged.gz", &whole[..whole.len() / 2]);
    let (text, small) = (file("text", b"a 10\nf 7\n"), file("small", b"a 10\nm 1\n"));
    let other = file("other", b"a 10\nE\n");
    let replay = |words: &[&str], says: &[&str]| {
        refused(&[&["vram", "replay"], words].concat(), says);
    };
    let from = |path: &Path| format!("rank=8:{}", plain(path));
    replay(
        &["--from", plain(&damaged)],
        &["damaged.gz: failed to unpack the stream"],
    );
    replay(
        &["--from", plain(&text)],
        &["line 2", "allocation 7 was never made"],
    );
    replay(&["--from", "/no/such"], &["/no/such"]);
    replay(&[], &["--from"]);
    replay(
        &["--from", plain(&small), "--for", "rank=8"],
        &["--for scales two streams"],
    );
    let two = ["--from", &from(&small), "--from", plain(&small)];
    replay(&two, &["say which with --for rank=N"]);
    replay(
        &[&two[..], &["--for", "rank=9"]].concat(),
        &["rank=N:STREAM"],
    );
    replay(&[&two[..], &["--from", "x"]].concat(), &["at most two"]);
    let same = [
        "--from",
        &from(&small),
        "--from",
        &from(&small),
        "--for",
        "rank=9",
    ];
    replay(&same, &["both are of rank 8"]);
    let another = format!("rank=16:{}", plain(&other));
    let unlike = [
        "--from",
        &from(&small),
        "--from",
        &another,
        "--for",
        "rank=9",
    ];
    replay(&unlike, &["failed to match the two streams"]);
    replay(&["--from", "rank=0:x"], &["`rank=0` is no rank"]);
    replay(&["--from", "x", "--for", "80"], &["`80` is no rank"]);
    replay(&["--from", plain(&small), "--limit-mib", "-1"], &["-1"]);
}

#[test]
fn a_report_needs_no_coordinator_and_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let (data, svg) = (folder.path().join("data"), folder.path().join("a.svg"));
    let library = vram::report(&Knowledge::seeds());
    let shipped = json_of(&ask(&["vram", "report", "--shipped", "--json"]));
    has(&shipped, &["rows", "groups", "outliers"]);
    has(
        &shipped["rows"][0],
        &[
            "host",
            "device",
            "mode",
            "backend",
            "source",
            "measured_mib",
            "computed_mib",
            "corrected_mib",
        ],
    );
    has(
        &shipped["groups"][0],
        &["host", "mode", "computed", "corrected"],
    );
    assert_eq!(
        shipped["rows"].as_array().map(Vec::len),
        Some(library.rows.len())
    );
    assert_eq!(shipped["groups"], read_back(&library.groups));

    let words = [
        "--data",
        plain(&data),
        "vram",
        "report",
        "--svg",
        plain(&svg),
    ];
    let output = ask(&words);
    let text = text_of(&output);
    assert!(text.contains("measured peaks"), "{text}");
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("only the shipped measurements"), "{note}");
    assert!(!data.exists());
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(drawn.matches("<circle").count(), library.rows.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let nowhere = folder.path().join("none/a.svg");
    let output = ask(&["vram", "report", "--shipped", "--svg", plain(&nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none/a.svg"));
    for words in [
        &["vram", "report"][..],
        &["vram", "predict", "--model", "gemma-3-4b-it", "--ask"],
    ] {
        let output = ask(&[&["--coordinator", "http://127.0.0.1:1"], words].concat());
        assert_eq!(output.status.code(), Some(3), "{words:?}");
    }
}

const FLEET: &str = r#"
time_scale = 100000
seed = 1
[[host]]
name = "box"
os = "linux"
[[host.device]]
name = "NVIDIA GeForce RTX 3070 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.65 GiB"
[[host.device]]
name = "NVIDIA GeForce RTX 3060 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.66 GiB"
held = "563 MiB"
[[host.device]]
name = "NVIDIA GeForce RTX 3060 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.66 GiB"
held = "563 MiB"
"#;

const SWEEP: &str = r#"
[sweep]
name = "night"
[train]
run = ["true"]
[place]
device = "gpu"
memory = "1 MiB"
"#;

#[test]
fn a_coordinator_answers_for_the_devices_of_its_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (fleet, sweep, data) = (
        file("fleet.toml", FLEET),
        file("night.toml", SWEEP),
        folder.path().join("data"),
    );
    let ask_of = |data: &Path, words: &[&str]| {
        let all = predict(&[&["--data", plain(data), "--ask"], words].concat());
        ask(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // Nothing is there: nothing but the shipped measurements is known, and nothing is made.
    let none = json_of(&ask_of(&data, &["--json"]));
    assert_eq!(
        none["predictions"].as_array().map(Vec::len),
        Some(vram::known_cards().len())
    );
    assert!(!data.exists());

    let run = [
        "--data",
        plain(&data),
        "run",
        plain(&sweep),
        "--fleet",
        plain(&fleet),
    ];
    assert_eq!(ask(&run).status.code(), Some(0));
    let answer = json_of(&ask_of(&data, &["--json"]));
    let mut all = answer["predictions"].as_array().unwrap().clone();
    all.sort_by_key(|one| one["devices"].as_u64());
    let of = |one: &Value| {
        json!([
            one["host"],
            one["device"],
            one["devices"],
            one["held_mib"],
            one["simulated"]
        ])
    };
    assert_eq!(
        of(&all[0]),
        json!(["box", "NVIDIA GeForce RTX 3070 Ti", 1, 0.0, true])
    );
    assert_eq!(
        of(&all[1]),
        json!(["box", "NVIDIA GeForce RTX 3060 Ti", 2, 563.0, true])
    );
    assert_eq!(all.len(), 2);
    let text = text_of(&ask_of(&data, &[]));
    assert!(
        text.contains("2 x RTX 3060 Ti *") && text.contains("would fit:"),
        "{text}"
    );

    // The same card by its name: nothing real was learned meanwhile.
    let here = json_of(&ask_prediction(&["--device", "3070 Ti", "--json"]));
    assert_eq!(
        json_of(&ask_of(&data, &["--device", "3070 Ti", "--json"])),
        here
    );
    let known = json_of(&ask(&["--data", plain(&data), "vram", "report", "--json"]));
    assert_eq!(
        known["groups"],
        read_back(vram::report(&Knowledge::seeds()).groups)
    );
}

#[test]
fn what_is_known_by_name_is_listed() {
    let cards = json_of(&ask(&["vram", "cards", "--json"]));
    assert_eq!(cards["cards"], json!(vram::known_cards()));
    let card = [
        "name",
        "backend",
        "os",
        "total_mib",
        "total_source",
        "usable_mib",
        "usable_source",
        "basis",
    ];
    has(&cards["cards"][0], &card);
    assert!(text_of(&ask(&["vram", "cards"])).contains("RX 7900 XTX"));
    let models = json_of(&ask(&["vram", "models", "--json"]));
    assert_eq!(
        models["models"].as_array().map(Vec::len),
        Some(vram::known_models().count())
    );
    has(
        &models["models"][0],
        &["name", "family", "layers", "hidden", "parameters"],
    );
    assert!(text_of(&ask(&["vram", "models"])).contains("gemma-3-4b-it"));
}
