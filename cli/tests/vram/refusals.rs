//! What `sweep vram predict` refuses, and in which words.

use serde_json::Value;

use crate::said::*;

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
    config("{", &["not JSON"]);
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
