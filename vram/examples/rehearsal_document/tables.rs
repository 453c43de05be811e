//! The shipped measurements that are not yet tables of steps, as such: the recipes of four layers with their live sets,
//! and the program's own probes and runs. Adds nothing that was not recorded; what the seeds leave out is inferred in
//! the crate, and said there.

use serde_json::{Map, Value, json};
use vram::{Mode, Observation, Observed, known_model_config, seed_history};

const LIVE_SETS: &str = include_str!("../../data/live-sets.jsonl");

/// File names with their lines.
pub fn all() -> Result<Vec<(&'static str, String)>, String> {
    Ok(vec![("live-sets", live_sets()?), ("seeds", seeds())])
}

/// The names of the live sets are their own; their peaks are of an H200.
fn live_sets() -> Result<String, String> {
    let rows = LIVE_SETS.lines().map(|line| {
        let mut row: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| format!("live-sets.jsonl: {error}"))?;
        let name = match row["model"].as_str() {
            Some("gemma3-4b") => "gemma-3-4b-it",
            Some("llama31-8b") => "llama-3.1-8b",
            Some("llama32-3b") => "llama-3.2-3b",
            Some("qwen3-4b") => "qwen3-4b",
            other => return Err(format!("live-sets.jsonl: unknown model {other:?}")),
        };
        let mut config = known_model_config(name).ok_or("a shipped model is missing")?;
        if let Some(vision) = config.get_mut("vision_config") {
            // As in h200.jsonl: the tower was built without its pooling head.
            vision["vision_use_head"] = false.into();
        }
        row.insert("model_config".into(), config);
        row.insert("gpu".into(), "NVIDIA H200".into());
        // Where it is a live set, the optimizer was the 8-bit one all the same.
        row.insert("optimizer".into(), "adamw_8bit".into());
        if row["mlp_chunk_tokens"] == 0 {
            row.insert("mlp_chunk_tokens".into(), Value::Null);
        }
        if let Some([allocated, reserved]) = last_peaks(&row) {
            row.insert("peak_allocated_mib".into(), allocated.into());
            row.insert("peak_reserved_mib".into(), reserved.into());
        }
        for live_set in ["forward", "backward", "per_step_peaks_mib"] {
            row.remove(live_set);
        }
        Ok(Value::Object(row).to_string())
    });
    Ok(rows.collect::<Result<Vec<_>, _>>()?.join("\n") + "\n")
}

fn last_peaks(row: &Map<String, Value>) -> Option<[f64; 2]> {
    let last = row["per_step_peaks_mib"].as_array()?.last()?;
    Some([last[0].as_f64()?, last[1].as_f64()?])
}

/// What ended, in the order of the days, each program on each card by itself.
fn seeds() -> String {
    let mut rows: Vec<(String, Value)> = seed_history()
        .into_iter()
        .filter(|(_, seen)| seen.observed == Observed::Ok && seen.allocated.is_some())
        .flat_map(|(day, seen)| {
            let elsewhere = (seen.mode == Mode::Train)
                .then(|| (day.clone(), with_state_elsewhere(row_of(&seen))));
            std::iter::once((day, row_of(&seen))).chain(elsewhere)
        })
        .collect();
    rows.sort_by_key(|(day, row)| {
        let program = (
            row["gpu"].to_string(),
            row["optimizer_steps"].as_u64(),
            row["optimizer"].to_string(),
        );
        (program, day.clone())
    });
    rows.iter().map(|(_, row)| format!("{row}\n")).collect()
}

/// The real runs a second time: their peaks grow with the rank by what the optimizer's 8-bit state takes less than they
/// should if it were on the card. Where it was is not recorded.
fn with_state_elsewhere(mut row: Value) -> Value {
    row["optimizer"] = "paged_adamw_8bit".into();
    row
}

fn row_of(seen: &Observation) -> Value {
    let trains = seen.mode == Mode::Train;
    let said = |name: &str| seen.settings.get(name).cloned().unwrap_or(Value::Null);
    let fixes = said("memory_fixes");
    let has = |fix: &str| {
        fixes
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == fix))
    };
    json!({
        "source": seen.source, "gpu": seen.class.name, "os": seen.class.os,
        "vendor": if seen.class.name.contains("AMD") { "amd" } else { "nvidia" },
        "model": "gemma-3-4b-it", "model_config": known_model_config("gemma-3-4b-it"),
        "quant": said("quant"), "rank": said("rank"), "dropout": said("dropout"), "dora": said("dora"), "batch": 1,
        "seq_len": said("seq_len"), "response_len": said("response_len"), "gradient_checkpointing": true,
        "save_on_cpu": has("save_on_cpu"), "bf16_lm_head": has("bf16_lm_head"), "logits_to_keep": has("logits_to_keep"),
        "mlp_chunk_tokens": has("chunked_mlp").then_some(1024), "autocast": trains,
        "logits_freed_before_backward": trains, "program_held": if trains { "nothing" } else { "loss_input" },
        "optimizer": "adamw_8bit", "optimizer_steps": if trains { 2 } else { 0 }, "status": "ok",
        "peak_allocated_mib": seen.allocated.map(|bytes| bytes.mib()),
        "peak_reserved_mib": seen.reserved.map(|bytes| bytes.mib()),
    })
}
