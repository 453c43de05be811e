//! The seeds' resident figures, the rig of three cards, and what llama.cpp's own logs say of its caches and buffers.

use vram::{Bake, Bytes, CacheQuant, MIB, VerdictKind, known_model, kv_cache, recurrent_state};

use super::{ask, card, cards, gguf, mib, resident, rig, term, within};

const F16: CacheQuant = CacheQuant::F16;

/// One of the rig's cards: three have 48,933 MiB (rig.json, `vram_mib`).
const RIG_CARD: f64 = 16_311.0;

/// What the driver takes of each card beside; nvidia-smi counts it, Ollama does not.
const CONTEXT: f64 = 233.5;

/// File sizes are what `ollama list` says. The first three are of one bench, on a RX 7900 XTX under Ollama 0.30.10
/// (F32), whose context is not recorded: taken as Ollama's default, 4,096 (F26). gpt-oss rules out much more, if both
/// of its caches were counted; not every Ollama does (its pull request 17037). Ollama reads its figure from llama.cpp's
/// log, which does not name the weights of a vision tower: so qwen3.5, whose file has 0.9 GB of them, comes out too
/// large. The router's figure is the seeds' own estimate.
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

/// Arms B and C: Ollama reports 23.34 GB on the cards against 26.9 GB in all. Inferred: the first is weights, cache and
/// state; the second, all buffers and what stays with the host besides. None of the model is on the CPU then, as rig.json
/// also says ("measured with the model VRAM-resident") and the decode rates do, the same at 2,048 and 131,072 tokens.
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

/// Arm C's working set, by nvidia-smi: 8,462, 8,380 and 10,098 MiB, 26,940 in all. Inferred: the last card has a draft
/// layer as well (27.3B parameters against 26.9B without one), with a cache and buffers of its own.
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
