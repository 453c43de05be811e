//! What `predict`, `report` and `replay` answer, as their JSON is promised.

use serde_json::{Value, json};
use vram::{
    Backend, Bytes, DeviceClass, DeviceLoad, Knowledge, Mode, ReplaySettings, Settings, Stream,
    Workload, predict, replay, report, scatter_svg,
};

fn ask(changes: Value) -> Value {
    let mut settings: Settings = serde_json::from_value(json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.1, "seq_len": 7177,
        "response_len": 237, "optimizer": "adamw_8bit",
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    }))
    .unwrap();
    settings.extend(serde_json::from_value::<Settings>(changes).unwrap());
    let class = DeviceClass {
        name: "NVIDIA GeForce RTX 3070 Ti".into(),
        backend: Backend::Cuda,
        os: "linux".into(),
        spills: false,
        simulated: false,
    };
    let load = DeviceLoad {
        usable: Bytes::from_mib(7833.6),
        held: Bytes::ZERO,
    };
    let workload = Workload::new(Mode::Train, &settings, None).unwrap();
    serde_json::to_value(predict(&workload, &class, &load, &Knowledge::seeds())).unwrap()
}

#[test]
fn a_prediction_names_its_terms_and_what_it_rests_on() {
    let answer = ask(json!({"rank": 120}));
    assert_eq!(answer["source"], "learned");
    let terms = answer["terms"].as_array().unwrap();
    let sum: f64 = terms.iter().map(|term| term["mib"].as_f64().unwrap()).sum();
    assert!((sum - answer["allocated_mib"].as_f64().unwrap()).abs() < 1.0);
    assert!(
        terms
            .iter()
            .any(|term| term["name"] == "optimizer state" && term["mark"] == "computed")
    );
    assert!(terms.iter().any(|term| term["mark"] == "learned"));
    let replayed = &answer["replayed"];
    assert!(replayed["status"] == "ok" || replayed["status"] == "oom");
    assert!(!replayed["alive_at_peak"].as_array().unwrap().is_empty());
}

#[test]
fn what_does_not_fit_comes_with_what_would() {
    let answer = ask(json!({}));
    assert_eq!(answer["verdict"], "too_large");
    let words: Vec<&str> = answer["would_fit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["change"].as_str().unwrap())
        .collect();
    assert!(words.contains(&"no dropout"), "{words:?}");
    // Changes that leave the arithmetic alone come first; each was rehearsed and replayed.
    assert_eq!(words[0], "paged optimizer state", "{words:?}");
}

#[test]
fn a_model_of_another_family_is_predicted_too() {
    let answer = ask(
        json!({"model": "Qwen/Qwen2.5-7B-Instruct", "seq_len": 1024, "response_len": 128, "rank": 16}),
    );
    assert_eq!(answer["source"], "computed");
    assert!(answer["need_mib"].as_f64().unwrap() > 5000.0);
}

#[test]
fn a_replay_has_the_promised_fields() {
    let stream = Stream::read(b"E\nm 1\na 30000000 weights\na 2000000 rest\nf 1\n").unwrap();
    let settings = ReplaySettings {
        limit: Some(Bytes::from_mib(20.0)),
        alive_at_peak: true,
        ..Default::default()
    };
    let answer = serde_json::to_value(replay(&stream, settings)).unwrap();
    assert_eq!(answer["status"], "oom");
    assert_eq!(answer["oom_wanted_mib"], 28.6);
    let answer = serde_json::to_value(replay(
        &stream,
        ReplaySettings {
            limit: None,
            ..settings
        },
    ))
    .unwrap();
    let expected = json!({
        "allocated_mib": 30.5, "reserved_mib": 50.0, "status": "ok", "oom_wanted_mib": null, "events": 5,
        "alive_at_peak": [
            {"label": "weights", "mib": 28.61, "blocks": 1}, {"label": "rest", "mib": 1.91, "blocks": 1},
        ],
    });
    assert_eq!(answer, expected);
}

#[test]
fn a_report_covers_every_learned_peak() {
    let answer = report(&Knowledge::seeds());
    assert!(answer.rows.len() > 45, "{}", answer.rows.len());
    for group in &answer.groups {
        println!(
            "{} {:?} computed {:?} corrected {:?}",
            group.host, group.mode, group.computed, group.corrected
        );
        assert!(group.corrected.median_pct.unwrap() < 1.0);
    }
    let svg = scatter_svg(&answer);
    assert_eq!(svg.matches("<circle").count(), answer.rows.len());
}

#[test]
fn of_a_mixture_of_experts_the_weights_are_counted_and_the_rest_is_unknown() {
    let config = json!({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
        "num_experts_per_tok": 2, "tie_word_embeddings": false});
    let answer = ask(json!({"model": "of-experts", "model_config": config, "quant": "bf16"}));
    assert_eq!(answer["verdict"], "uncertain");
    assert_eq!(answer["source"], "unknown");
    let terms = answer["terms"].as_array().unwrap();
    // 46.7 thousand million parameters of two bytes.
    let weights = terms[0]["mib"].as_f64().unwrap();
    assert!(
        (weights / (46.7e9 * 2.0 / 1048576.0) - 1.0).abs() < 0.01,
        "{weights}"
    );
    assert_eq!(
        (&terms[1]["name"], &terms[1]["mark"]),
        (&json!("activations"), &json!("unknown"))
    );
    assert!(terms[1]["mib"].is_null());
}
