//! The memory of evaluations against what was measured: the seeds' resident figures, the rig of three cards, and what
//! llama.cpp's own logs say of its caches and buffers.

use serde_json::{Value, json};
use vram::{
    Backend, Bake, Bytes, CacheQuant, DeviceClass, DeviceLoad, Knowledge, MIB, Source, Term,
    VerdictKind, Workload, estimate, known_model, kv_cache, recurrent_state, verdict_of,
};

const F16: CacheQuant = CacheQuant::F16;

/// One of the rig's cards: three have 48,933 MiB (rig.json, `vram_mib`).
const RIG_CARD: f64 = 16_311.0;

/// What the driver takes of each card beside; nvidia-smi counts it, Ollama does not.
const CONTEXT: f64 = 233.5;

fn bake(settings: Value) -> Workload {
    let settings = serde_json::from_value(settings).unwrap();
    Workload::new(vram::Mode::Bake, &settings, None).unwrap()
}

fn gguf(model: &str, bytes: u64, context_len: u64) -> Workload {
    bake(json!({"model": model, "gguf_bytes": bytes, "context_len": context_len}))
}

/// The same work on so many equal cards.
fn on_cards(workload: &Workload, cards: u32) -> Workload {
    let mut settings = workload.settings.clone();
    settings.insert("cards".into(), json!(cards));
    Workload::new(workload.mode, &settings, None).unwrap()
}

/// `qwen3.8-iq4xs:latest`, 15.18 GB (rig.json, `model`).
fn rig(context_len: u64, cards: u32) -> Workload {
    on_cards(&gguf("qwen3.8-27b", 15_180_000_000, context_len), cards)
}

fn mib(terms: &[Term]) -> f64 {
    terms.iter().map(|term| term.bytes.mib()).sum()
}

fn term(terms: &[Term], name: &str) -> f64 {
    let mut named = terms.iter().filter(|term| term.name == name);
    named.next().map_or(0.0, |term| term.bytes.mib())
}

fn cards(workload: &Workload) -> Vec<Vec<Term>> {
    Bake::of(workload).unwrap().cards()
}

/// On all cards, without the driver's context.
fn resident(workload: &Workload) -> f64 {
    cards(workload).iter().map(|card| mib(card)).sum()
}

#[track_caller]
fn within(computed: f64, measured: f64, tolerance: f64) {
    let error = computed / measured - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{computed:.0} against {measured:.0}: {:+.1} %",
        error * 100.0
    );
}

fn card(name: &str, spills: bool) -> DeviceClass {
    DeviceClass {
        name: name.into(),
        backend: Backend::Cuda,
        os: "linux".into(),
        spills,
        simulated: false,
    }
}

fn ask(workload: &Workload, room: f64, class: &DeviceClass) -> VerdictKind {
    let load = DeviceLoad {
        usable: Bytes::from_mib(room),
        held: Bytes::ZERO,
    };
    let known = estimate(workload, class, &Knowledge::default());
    verdict_of(workload, known, class, &load).kind
}

/// File sizes are what `ollama list` says of the models. The first three were measured by one bench on a RX 7900 XTX
/// under Ollama 0.30.10 (F32), the context of which is not recorded: Ollama's default there is 4,096 (F26), and
/// gpt-oss leaves no room for much more. Ollama's figure has the vision tower's buffers and not its weights: so
/// qwen3.5, whose file has 0.9 GB of vision, comes out too large. The router's figure is the seeds' own estimate.
#[test]
fn the_seeds_resident_figures() {
    for (model, file, context_len, measured, tolerance) in [
        ("gpt-oss:20b", 13_793_441_244, 4096, 12_261.0, 0.01),
        ("qwen3.5:9b", 6_594_474_711, 4096, 5_642.0, 0.05),
        ("gemma4:12b-it-qat", 7_151_003_754, 4096, 7_601.0, 0.03),
        // Q8_0, served with 9,216 tokens since F26.
        (
            "gemma-3-4b-it",
            4_140_000_000,
            9216,
            4.4e9 / MIB as f64,
            0.05,
        ),
    ] {
        within(
            resident(&gguf(model, file, context_len)),
            measured,
            tolerance,
        );
    }
}

/// Arms B and C: Ollama reports 23.34 GB on the cards against 26.9 GB in all. The first is weights, cache and state,
/// the second all buffers and what stays with the host besides: nothing of the model is on the CPU, as the decode
/// rates say that do not depend on the context (47.6 tokens a second at 2,048 and at 131,072).
#[test]
fn three_cards_hold_the_rigs_model_whole() {
    let workload = rig(131_072, 3);
    let buffers: f64 = cards(&workload)
        .iter()
        .map(|card| term(card, "compute buffers"))
        .sum();
    let model = resident(&workload) - buffers;
    within(model, 23.34e9 / MIB as f64, 0.01);
    let bake = Bake::of(&workload).unwrap();
    within(
        resident(&workload) + bake.on_host().mib(),
        26.9e9 / MIB as f64,
        0.01,
    );
    assert_eq!(
        ask(
            &workload,
            RIG_CARD,
            &card("NVIDIA GeForce RTX 5060 Ti", false)
        ),
        VerdictKind::Fits
    );
    let rooms = [Bytes::from_mib(RIG_CARD - CONTEXT); 3];
    assert!(!bake.split(&rooms).offloads());
}

/// Arm C's working set, by nvidia-smi: 8,462, 8,380 and 10,098 MiB, 26,940 in all. The file has a draft layer (27.3B
/// parameters of which 26.9B are the model's), which Ollama puts on the last card with a cache and buffers of its own.
#[test]
fn the_rigs_cards_one_by_one() {
    let cards = cards(&rig(131_072, 3));
    let each: Vec<f64> = cards.iter().map(|card| mib(card) + CONTEXT).collect();
    within(each[0], 8462.0, 0.04);
    within(each[1], 8380.0, 0.04);
    within(each[2], 10_098.0, 0.20);
    within(each.iter().sum(), 26_940.0, 0.06);
}

/// Arm B2 names its depths by the prompt, not by the context that the server was loaded with: at 64k it held what it
/// held at 128k. So each lies between the two contexts.
#[test]
fn the_rigs_depths_lie_between_prompt_and_context() {
    let held = |context_len| resident(&rig(context_len, 3)) + 3.0 * CONTEXT;
    let most = held(131_072);
    for (depth, measured) in [(8192, 18_106.0), (32_768, 23_024.0), (65_536, 27_154.0)] {
        assert!(held(depth) < measured, "{depth}: {}", held(depth));
        assert!(measured < most * 1.07, "{depth}: {most}");
    }
    within(most, 27_026.0, 0.06);
}

/// Arm A: one card, partial offload. Arm D is another engine, whose experts are in host memory by intent.
#[test]
fn one_card_of_the_rig_offloads() {
    let (linux, windows) = (card("NVIDIA GeForce RTX 5060 Ti", false), card("x", true));
    assert_eq!(
        ask(&rig(131_072, 1), RIG_CARD, &linux),
        VerdictKind::Offloads
    );
    // Its loader asks what is free: it does not come to where the driver would page.
    assert_eq!(
        ask(&rig(131_072, 1), RIG_CARD, &windows),
        VerdictKind::Offloads
    );
    assert_eq!(ask(&rig(131_072, 2), RIG_CARD, &linux), VerdictKind::Fits);
    let workload = rig(131_072, 1);
    let split = Bake::of(&workload)
        .unwrap()
        .split(&[Bytes::from_mib(RIG_CARD)]);
    assert!(split.offloads() && split.cards[0] <= Bytes::from_mib(RIG_CARD));
    within(
        split.cards[0].mib() + split.on_cpu.mib(),
        resident(&workload),
        1e-6,
    );
}

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

/// Exact figures of llama.cpp's logs, one request: gpt-oss-20b (3,072 + 18), gemma-4-12b (64 + 480; in q8_0 136 + 255),
/// gemma-3-4b (2,560 + 174, ollama pull request 17037), Qwen3.5-9B in q8_0 and q4_0, Qwen3.6-27B.
#[test]
fn caches_are_what_llama_cpp_logs() {
    for (model, context_len, quant, logged) in [
        ("gpt-oss-20b", 131_072, F16, 3072.0 + 18.0),
        ("gemma-4-12b-it", 4096, F16, 64.0 + 480.0),
        ("gemma-4-12b-it", 16_384, CacheQuant::Q8, 136.0 + 255.0),
        ("gemma-3-4b-it", 131_072, F16, 2560.0 + 174.0),
        ("qwen3.5-9b", 262_144, CacheQuant::Q8, 4352.0),
        ("qwen3.5-9b", 131_072, CacheQuant::Q4, 1152.0),
        ("qwen3.6-27b", 32_768, F16, 2048.0),
    ] {
        let cache = kv_cache(known_model(model).unwrap(), context_len, quant);
        assert!(
            (cache.mib() - logged).abs() < 0.01,
            "{model}: {cache} against {logged}"
        );
    }
    for (model, logged) in [
        ("qwen3.5-9b", 50.25),
        ("qwen3.6-27b", 149.625),
        ("gpt-oss-20b", 0.0),
    ] {
        let state = recurrent_state(known_model(model).unwrap());
        assert!(
            (state.mib() - logged).abs() < 0.01,
            "{model}: {state} against {logged}"
        );
    }
}

/// gemma-3-4b on a RTX 5080 and 131,072 tokens (ollama pull request 17037): 2,734 + 203 beside 2,367 of weights.
/// gemma-4-12b on an Apple M1 Max, 4,096 and 16,384 tokens: 127.8 and 139.8; gpt-oss-20b on an M5, 32,768: 151.
#[test]
fn compute_buffers_are_near_what_llama_cpp_logs() {
    for (model, context_len, logged, tolerance) in [
        ("gemma-3-4b-it", 131_072, 203.0, 0.02),
        ("gemma-4-12b-it", 4096, 127.8, 0.08),
        ("gemma-4-12b-it", 16_384, 139.8, 0.08),
        ("gpt-oss-20b", 32_768, 151.0, 0.23),
    ] {
        let computed = term(
            &cards(&gguf(model, 4_000_000_000, context_len))[0],
            "compute buffers",
        );
        within(computed, logged, tolerance);
    }
    // A 27B on two cards with batches of 2,048 (ollama llm/llama_server_test.go), taken to 512; the second card's also
    // less the logits of the whole batch, which were reserved then.
    let two = cards(&rig(262_144, 2));
    within(term(&two[0], "compute buffers"), 9952.25 / 4.0, 0.02);
    within(
        term(&two[1], "compute buffers"),
        (6276.28 - 1940.0) / 4.0,
        0.11,
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
    let config = json!({"model_type": "llama", "hidden_size": 1 << 24, "intermediate_size": 1 << 24,
        "num_hidden_layers": 1000, "num_attention_heads": 1 << 24, "head_dim": 1 << 24, "vocab_size": 1 << 24});
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
