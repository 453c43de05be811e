//! What holds of every prediction, whatever the model and the recipe: more never needs less, terms add up, learning
//! narrows and does not depend on its order, absurd inputs are errors or left open. Each case is a random model of one
//! of the families and a random recipe. Where a property holds in part only, its test says in which and why.
//! Says nothing of whether the bytes are right: the tables do.

mod impossible;
mod relations;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use vram::{
    ALL_LINEAR, Architecture, Backend, Bytes, DeviceClass, DeviceLoad, Evaluation, FURTHER_FIXES,
    Knowledge, MEMORY_FIXES, Mode, Noted, Observation, Observed, Prediction, Settings, Source,
    VerdictKind, Workload, estimate, evaluate, predict, verdict,
};

/// Failures are told, not written into the tree.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// Enough for every verdict to be `fits`, so that nothing smaller is looked for.
const ROOMY: DeviceLoad = DeviceLoad {
    usable: Bytes(1 << 56),
    held: Bytes::ZERO,
};

fn class(name: &str) -> DeviceClass {
    let amd = name.contains("AMD");
    DeviceClass {
        name: name.into(),
        backend: if amd { Backend::Rocm } else { Backend::Cuda },
        os: "linux".into(),
        spills: false,
        simulated: false,
    }
}

fn cards() -> impl Strategy<Value = DeviceClass> {
    select(vec![
        "Tesla T4",
        "NVIDIA GeForce RTX 3070 Ti",
        "NVIDIA H200",
        "NVIDIA GeForce RTX 5060 Ti",
        "AMD Radeon RX 7900 XTX",
    ])
    .prop_map(class)
}

/// A small model of every family, with and without eyes and a window, tied and not.
fn models() -> impl Strategy<Value = Value> {
    let families = vec![
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma2",
        "gemma3_text",
        "gemma3",
        "phi3",
        "smollm3",
    ];
    let shape = (1u64..12, 1u64..5, 1u64..4, 1u64..5, 1u64..12, 1u64..64);
    let window = prop::option::of(8u64..2000);
    (select(families), shape, window, any::<bool>()).prop_map(
        |(family, (layers, heads, groups, head, inner, vocab), window, tied)| {
            let text = json!({
                "model_type": family, "hidden_size": heads * groups * 32 * head, "intermediate_size": inner * 256,
                "num_hidden_layers": layers, "num_attention_heads": heads * groups, "num_key_value_heads": heads,
                "head_dim": 32 * head, "vocab_size": vocab * 1000, "sliding_window": window,
                "tie_word_embeddings": tied,
            });
            if family != "gemma3" {
                return text;
            }
            json!({"model_type": family, "text_config": text, "vision_config": {"hidden_size": 128,
                "intermediate_size": 256, "num_hidden_layers": 2, "image_size": 56, "patch_size": 14}})
        },
    )
}

/// The names that phi 3 has, besides.
fn names() -> Vec<&'static str> {
    ALL_LINEAR
        .into_iter()
        .chain(["qkv_proj", "gate_up_proj"])
        .collect()
}

fn fixes() -> impl Strategy<Value = Vec<&'static str>> {
    let all: Vec<&str> = MEMORY_FIXES.into_iter().chain(FURTHER_FIXES).collect();
    let most = all.len();
    subsequence(all, 0..=most)
}

fn recipes() -> impl Strategy<Value = Value> {
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let quants = select(vec!["nf4", "fp4", "int8", "bf16", "fp16", "fp32"]);
    let optimizers = vec![
        "adamw",
        "adamw_8bit",
        "paged_adamw_8bit",
        "paged_adamw_32bit",
        "sgd",
    ];
    let sizes = (1u64..3000, 1u64..12, 1u64..4);
    let attention = select(vec!["sdpa", "sdpa", "eager"]);
    (switches, quants, select(optimizers), sizes, attention, fixes(), subsequence(names(), 1..=9)).prop_map(
        |((checkpointing, dora, dropout, expandable), quant, optimizer, (seq, eighths, batch), attention, fixes, targets)| {
            json!({
                "model": "somebody/model", "quant": quant, "rank": 8 * eighths, "seq_len": seq, "batch": batch,
                "response_len": 1 + seq / 3, "memory_fixes": fixes, "gradient_checkpointing": checkpointing,
                "attention": attention, "dora": dora, "dropout": if dropout { 0.1 } else { 0.0 },
                "mlp_chunk_tokens": 256, "optimizer": optimizer, "targets": targets,
                "expandable_segments": expandable,
            })
        },
    )
}

fn modes() -> impl Strategy<Value = Mode> {
    select(vec![Mode::Train, Mode::Probe])
}

fn with(recipe: &Value, changes: Value) -> Value {
    let mut changed = recipe.clone();
    for (key, value) in changes.as_object().unwrap() {
        changed[key] = value.clone();
    }
    changed
}

fn settings(value: &Value) -> Settings {
    serde_json::from_value(value.clone()).unwrap()
}

fn work(mode: Mode, model: &Value, recipe: &Value) -> Workload {
    let all = with(recipe, json!({"model_config": model}));
    Workload::new(mode, &settings(&all), None).unwrap()
}

fn ask(mode: Mode, model: &Value, recipe: &Value, class: &DeviceClass) -> Prediction {
    predict(
        &work(mode, model, recipe),
        class,
        &ROOMY,
        &Knowledge::default(),
    )
}

/// Largest live MiB of each stage.
fn stages(prediction: &Prediction) -> BTreeMap<String, f64> {
    let stages = prediction.stages.iter();
    stages
        .map(|stage| (stage.name.clone(), stage.allocated_mib))
        .collect()
}

/// The stage that got smaller, if any.
fn smaller(less: &BTreeMap<String, f64>, more: &BTreeMap<String, f64>) -> Option<String> {
    smaller_by(less, more, 0.0)
}

/// The stage that got smaller by more than a share of it, if any.
fn smaller_by(
    less: &BTreeMap<String, f64>,
    more: &BTreeMap<String, f64>,
    share: f64,
) -> Option<String> {
    let found = less.iter().find(|(name, mib)| {
        more.get(*name)
            .is_none_or(|more| *more < **mib * (1.0 - share))
    });
    found.map(|(name, mib)| format!("{name}: {mib} and with more {:?}", more.get(name)))
}

/// Backward begins to run the last layer again when it first needs something of it: with another module adapted that may
/// be a product earlier. So the loss and the last layer are taken as one.
fn joined(stages: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut joined: BTreeMap<String, f64> = BTreeMap::new();
    for (name, mib) in stages {
        let name = name.replacen(
            "loss",
            "backward, last layer",
            usize::from(!name.contains("and")),
        );
        let known = joined.entry(name).or_insert(mib);
        *known = known.max(mib);
    }
    joined
}

/// bitsandbytes pages the state of a large tensor to the host and keeps a small one's in 32 bits: a tensor that grows
/// beyond either size needs less on the card. Such an optimizer is asked about its first step only, before there is
/// any state.
fn without_state(recipe: &Value, stages: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let optimizer = recipe["optimizer"].as_str().unwrap();
    let is_alike = matches!(optimizer, "adamw" | "sgd");
    let keep = |name: &str| is_alike || !(name.contains("later") || name.contains("optimizer"));
    stages.into_iter().filter(|(name, _)| keep(name)).collect()
}

/// What is not finite has no JSON: it becomes null. So a number that is null is either one that is not known, or wrong:
/// `known` says which of an object's fields are always numbers.
fn is_finite(value: &Value, known: &[&str]) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let missing = value.is_null() && known.contains(&name.as_str());
            !missing && is_finite(value, known)
        }),
        Value::Array(items) => items.iter().all(|item| is_finite(item, known)),
        // Farther from anything than even an error of a hundred percent of everything.
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() < 1e24),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

fn is_whole(answer: &Prediction) -> bool {
    let mut always = vec!["mib", "usable_mib", "held_mib"];
    if answer.allocated_mib.is_some() {
        always.extend([
            "allocated_mib",
            "reserved_mib",
            "context_mib",
            "need_mib",
            "band_mib",
        ]);
    }
    is_finite(&json!(answer), &always)
}

/// Each row says what it predicts and how far off that is, wherever its measurement says something.
fn is_judged(answer: &Evaluation) -> bool {
    let rows = answer.rows.iter().all(|row| {
        let said = row.predicted_allocated_mib.is_none_or(f64::is_finite);
        said && row.allocated_error_pct.is_none_or(f64::is_finite)
            && row.reserved_error_pct.is_none_or(f64::is_finite)
            && row.pre_step_error_pct.is_none_or(f64::is_finite)
    });
    rows && is_finite(&json!(answer), &["n"])
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn box_class() -> DeviceClass {
    class("NVIDIA GeForce RTX 3070 Ti")
}

fn recipe_of(rank: u64) -> Settings {
    settings(
        &json!({"model": "qwen2.5-0.5b", "quant": "nf4", "rank": rank, "seq_len": 1024, "response_len": 100,
        "memory_fixes": MEMORY_FIXES, "optimizer": "adamw"}),
    )
}

fn about(knowledge: &Knowledge, rank: u64) -> vram::Estimate {
    let work = Workload::new(Mode::Train, &recipe_of(rank), None).unwrap();
    estimate(&work, &box_class(), knowledge).unwrap()
}

fn observation(
    rank: u64,
    observed: Observed,
    allocated: Bytes,
    reserved: bool,
    source: &str,
) -> Observation {
    Observation {
        settings: recipe_of(rank),
        mode: Mode::Train,
        host: "box".into(),
        class: box_class(),
        observed,
        allocated: Some(allocated),
        reserved: reserved.then(|| Bytes::from_mib(allocated.mib() * 1.04)),
        room: Bytes::from_mib(7833.6),
        source: source.into(),
        noted: Noted::default(),
    }
}

/// Runs of a few recipes on one host, most of them near what is computed, some not, some out of memory.
fn measured() -> impl Strategy<Value = Vec<Observation>> {
    let one = (1u64..5, 0.93..1.07_f64, 0u8..12, any::<bool>());
    prop::collection::vec(one, 1..16).prop_map(|seen| {
        let seen = seen.into_iter().enumerate();
        seen.map(|(at, (rank, by, kind, reserved))| {
            let rank = [8, 32, 104, 512][rank as usize - 1];
            let observed = match kind {
                0 => Observed::Oom,
                1 => Observed::Spilled,
                _ => Observed::Ok,
            };
            let by = if kind == 2 { 2.0 * by } else { by };
            let computed = about(&Knowledge::default(), rank).allocated.mib();
            let mut one = observation(
                rank,
                observed,
                Bytes::from_mib(computed * by),
                reserved,
                &at.to_string(),
            );
            if observed == Observed::Oom {
                one.room = Bytes::from_mib(computed * by);
            }
            one
        })
        .collect()
    })
}

fn learned(seen: &[Observation]) -> Knowledge {
    let mut knowledge = Knowledge::default();
    for one in seen {
        assert!(knowledge.learn(one.clone()));
    }
    knowledge
}

/// A row of a table, with every field that is read.
fn row() -> Value {
    json!({
        "source": "here", "gpu": "NVIDIA H200", "vendor": "nvidia", "os": "linux", "model": "small",
        "model_config": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6, "num_attention_heads": 4,
            "vocab_size": 100},
        "quant": "nf4", "double_quant": true, "base_dtype": "bf16", "rank": 8, "targets": ["q_proj"], "dropout": 0.1,
        "dora": false, "batch": 1, "seq_len": 64, "response_len": 8, "attention": "sdpa", "optimizer_steps": 1,
        "optimizer": "adamw", "gradient_checkpointing": true, "save_on_cpu": false, "mlp_chunk_tokens": 16,
        "bf16_lm_head": true, "logits_to_keep": true, "loss_chunk_tokens": 0, "autocast": true,
        "logits_freed_before_backward": true, "expandable_segments": false, "limit_mib": 50.0, "status": "ok",
        "after_load_mib": 1.0, "pre_step_mib": 1.0, "forward_peak_mib": 2.0, "backward_peak_mib": 2.0,
        "peak_allocated_mib": 2.0, "peak_reserved_mib": 4.0, "optimizer_state_mib": 0.1,
    })
}
