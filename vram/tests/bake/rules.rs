//! What holds of every bake: which verdict it gets, that more never needs less, that nothing overflows, what its key
//! is made of.

use serde_json::{Value, json};
use vram::{Backend, Bake, Bytes, DeviceClass, Knowledge, Source, VerdictKind, Workload, estimate};

use super::{ask, bake, card, cards, on_cards, resident, rig, term};

#[test]
fn only_a_bake_of_a_model_offloads() {
    let class = card("NVIDIA GeForce RTX 3070 Ti", false);
    let own = serde_json::from_value(json!({"x": 1})).unwrap();
    let declared = Some(Bytes::from_mib(9000.0));
    let own = Workload::new(vram::Mode::Bake, &own, declared).unwrap();
    assert_eq!(ask(&own, 8000.0, &class), VerdictKind::TooLarge);
    let cpu = DeviceClass {
        backend: Backend::Cpu,
        ..class.clone()
    };
    assert_eq!(ask(&rig(131_072, 1), 8000.0, &cpu), VerdictKind::TooLarge);
    // A Hugging Face model as well: 8 billion weights in half precision are no matter of a narrow band.
    let hf = bake(json!({"model": "llama-3.1-8b", "quant": "bf16", "context_len": 4096}));
    assert_eq!(ask(&hf, 8000.0, &class), VerdictKind::Offloads);
    assert_eq!(ask(&hf, 24_000.0, &class), VerdictKind::Fits);
    assert_eq!(
        ask(&bake(json!({"model": "nobody/knows"})), 8000.0, &class),
        VerdictKind::Uncertain
    );
}

#[test]
fn a_quantised_cache_is_smaller_and_a_second_request_has_its_own() {
    let with = |changes: Value| {
        let mut settings =
            json!({"model": "gemma-3-4b-it", "gguf_bytes": 4_140_000_000_u64, "context_len": 8192});
        settings
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        term(&cards(&bake(settings))[0], "kv cache")
    };
    let full = with(json!({}));
    assert!((with(json!({"kv_cache": "q8_0"})) / full - 34.0 / 64.0).abs() < 1e-9);
    assert!((with(json!({"kv_cache": "q4_0"})) / full - 18.0 / 64.0).abs() < 1e-9);
    assert!((with(json!({"parallel": 4})) / full - 4.0).abs() < 1e-9);
}

#[test]
fn a_longer_context_never_needs_less() {
    for model in [
        "gemma-3-4b-it",
        "gpt-oss-20b",
        "qwen3.5-27b",
        "gemma-4-12b-it",
        "llama-3.1-8b",
    ] {
        for (cards, file) in [(1, true), (3, true), (1, false), (3, false)] {
            let mut before = 0.0;
            for context_len in [
                1,
                255,
                256,
                257,
                4096,
                9216,
                32_768,
                131_072,
                1_000_000,
                100_000_000,
            ] {
                let mut settings = json!({"model": model, "context_len": context_len});
                if file {
                    settings["gguf_bytes"] = json!(8_000_000_000_u64);
                }
                let need = resident(&on_cards(&bake(settings), cards));
                assert!(need >= before, "{model} {context_len}: {need} < {before}");
                before = need;
            }
        }
    }
}

/// The largest values that are read come out as too large, not as something small.
#[test]
fn nothing_overflows() {
    // As large as a configuration may be.
    let config = json!({"model_type": "llama", "hidden_size": 1 << 17, "intermediate_size": 1 << 20,
        "num_hidden_layers": 1000, "num_attention_heads": 1 << 9, "head_dim": 1 << 9, "vocab_size": 1 << 24});
    for file in [Value::Null, json!(1), json!(1_u64 << 44)] {
        let workload = bake(
            json!({"model": "m", "model_config": config, "gguf_bytes": file, "rank": 100_000_000,
            "context_len": 100_000_000, "parallel": 100_000_000}),
        );
        for cards in [1, 3, 64] {
            let workload = on_cards(&workload, cards);
            let class = card("NVIDIA H200", false);
            assert_eq!(ask(&workload, 1e9, &class), VerdictKind::Offloads);
            let split = Bake::of(&workload).unwrap().split(&[Bytes(1 << 50); 3]);
            assert!(split.offloads());
        }
    }
    let tiny = rig(8192, 1);
    assert!(Bake::of(&tiny).unwrap().split(&[]).cards.is_empty());
    assert!(Bake::of(&tiny).unwrap().split(&[Bytes::ZERO; 2]).offloads());
}

#[test]
fn a_wrong_setting_is_named() {
    for (key, value) in [
        ("kv_cache", json!("q5_1")),
        ("gguf_bytes", json!(0)),
        ("gguf_bytes", json!("15 GB")),
        ("gguf_bytes", json!(1_u64 << 45)),
        ("parallel", json!(0)),
        ("cards", json!(65)),
        ("context_len", json!(-1)),
    ] {
        let mut settings = json!({"model": "gemma-3-4b-it"});
        settings[key] = value.clone();
        let settings = serde_json::from_value(settings).unwrap();
        let error = Workload::new(vram::Mode::Bake, &settings, None).unwrap_err();
        assert_eq!(error.key, key, "{value}");
    }
}

/// What was learned under a key of an older version stays known: what is as usual is not in it.
#[test]
fn keys_of_bakes() {
    let plain = json!({"model": "m", "context_len": 4096});
    let key = |changes: Value| {
        let mut settings = plain.clone();
        settings
            .as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        bake(settings).key
    };
    let usual = json!({"kv_cache": "f16", "parallel": 1});
    assert_eq!(key(usual), key(json!({})));
    assert!(!key(json!({})).contains("kv_cache") && !key(json!({})).contains("cards"));
    for changed in [
        json!({"kv_cache": "q8_0"}),
        json!({"parallel": 2}),
        json!({"gguf_bytes": 1000}),
    ] {
        assert_ne!(key(changed), key(json!({})));
    }
    assert_eq!(key(json!({"cards": 1})), key(json!({})));
    assert_ne!(key(json!({"cards": 2})), key(json!({})));
}

#[test]
fn an_estimate_is_of_the_fullest_card_and_its_terms_add_up() {
    let class = card("NVIDIA GeForce RTX 5060 Ti", false);
    let one = estimate(&rig(131_072, 1), &class, &Knowledge::default()).unwrap();
    let three = estimate(&rig(131_072, 3), &class, &Knowledge::default()).unwrap();
    assert!(three.need() < one.need());
    for known in [one, three] {
        assert_eq!(known.source, Source::Computed);
        assert_eq!(
            known.terms.iter().map(|term| term.bytes).sum::<Bytes>(),
            known.allocated
        );
    }
}
