//! `sweep vram predict` by itself, without a coordinator.

use serde_json::{Value, json};
use vram::{Bytes, DeviceClass, Knowledge, Mode, Settings, Workload, known_card};

use crate::said::*;

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
        &["change", "settings", "need_mib", "band_mib"],
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
    refused(&bad, &["rows.jsonl:1: model_config is missing"]);
}
