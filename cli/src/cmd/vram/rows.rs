//! What `sweep vram predict --learn-from ROWS.jsonl` learns: the rows of a table of measured steps as observations, on
//! top of the shipped ones. A row that a recipe cannot say is left out: what it shows would be taken for an error of
//! the closed form. One that cannot be read is an error.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use vram::{
    Backend, Bytes, DeviceClass, DeviceLoad, Knowledge, Mode, Noted, Observation, Observed, Row,
    Workload,
};

use super::evaluate::in_its_line;
use super::input;
use crate::context::Context;
use crate::error::Error;
use crate::out;

/// Between what an allocator was held to and what the driver takes besides (docs/memory-model.md).
const CONTEXT_MIB: f64 = 233.5;

/// Of the closed form from the rehearsal of the same step: it counts no blocks and no order, which is up to 4 %.
const APART: f64 = 0.05;

pub fn knowledge(tables: &[PathBuf], context: &Context) -> Result<Knowledge, Error> {
    let mut knowledge = Knowledge::seeds();
    for path in tables {
        let (rows, learned) = learn(&mut knowledge, path)?;
        if learned < rows {
            let name = input::name(path);
            let note = format!(
                "{name}: learned from {learned} of {rows} rows; a recipe cannot say the others"
            );
            out::note(context, &note);
        }
    }
    Ok(knowledge)
}

/// How many rows there are, and how many were learned.
fn learn(knowledge: &mut Knowledge, path: &Path) -> Result<(usize, usize), Error> {
    let (table, name) = (input::table(path)?, input::name(path));
    let (mut rows, mut learned) = (0, 0);
    for (at, line) in table.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{name}:{}", at + 1);
        let wrong = |message: &str| Error::BadInput(format!("{place}: {}", in_its_line(message)));
        let row: Row = serde_json::from_str(line).map_err(|bad| wrong(&bad.to_string()))?;
        let rehearsed = rehearsed(line).map_err(|message| wrong(&message))?;
        rows += 1;
        let Some(seen) = observation(&row, &place) else {
            continue;
        };
        let workload = Workload::new(seen.mode, &seen.settings, None)
            .map_err(|bad| wrong(&bad.to_string()))?;
        if is_the_same(&workload, &seen.class, rehearsed) {
            learned += usize::from(knowledge.learn(seen));
        }
    }
    Ok((rows, learned))
}

/// What the row's own step allocates at its peak, with nothing learned and no limit; nothing where the activations of
/// its family are not known.
fn rehearsed(line: &str) -> Result<Option<f64>, String> {
    let mut row: Value = serde_json::from_str(line).map_err(|bad| bad.to_string())?;
    row["limit_mib"] = Value::Null;
    let one = vram::evaluate(&row.to_string(), &[], false).map_err(|bad| bad.message)?;
    Ok(one.rows.first().and_then(|row| row.predicted_allocated_mib))
}

/// Whether the recipe stands for the step that was measured.
fn is_the_same(workload: &Workload, class: &DeviceClass, rehearsed: Option<f64>) -> bool {
    let roomy = DeviceLoad {
        usable: Bytes(u64::MAX),
        held: Bytes::ZERO,
    };
    let alone = vram::predict(workload, class, &roomy, &Knowledge::default());
    let stages = alone.stages.iter().map(|stage| stage.allocated_mib);
    match (stages.reduce(f64::max), rehearsed) {
        (Some(closed), Some(rehearsed)) => (closed / rehearsed - 1.0).abs() <= APART,
        // Of such a model nothing but its own measurement is ever used.
        _ => true,
    }
}

fn observation(row: &Row, place: &str) -> Option<Observation> {
    let mode = match row.optimizer_steps.unwrap_or(0) {
        0 => Mode::Probe,
        1 => return None,
        _ => Mode::Train,
    };
    let observed = match row.status.as_deref() {
        None | Some("ok") => Observed::Ok,
        Some("oom") => Observed::Oom,
        Some(_) => return None,
    };
    let class = class(row);
    let card = vram::known_card(&class.name);
    let limit = row.limit_mib.map(|limit| limit + CONTEXT_MIB);
    let room = limit.or(card.ok().map(|card| card.usable_mib));
    if observed == Observed::Oom && room.is_none() {
        return None;
    }
    Some(Observation {
        settings: settings(row)?,
        mode,
        host: place.to_owned(),
        class,
        observed,
        allocated: row.peak_allocated_mib.map(Bytes::from_mib),
        reserved: row.peak_reserved_mib.map(Bytes::from_mib),
        room: room.map_or(Bytes(u64::MAX), Bytes::from_mib),
        source: place.to_owned(),
        noted: Noted {
            wanted: row.oom_wanted_mib.map(Bytes::from_mib),
            ..Noted::default()
        },
    })
}

fn class(row: &Row) -> DeviceClass {
    let os = row.os.clone().unwrap_or_else(|| "linux".to_owned());
    DeviceClass {
        name: row.gpu.clone().unwrap_or_default(),
        backend: match row.vendor.as_deref() {
            Some("amd") => Backend::Rocm,
            _ => Backend::Cuda,
        },
        spills: os == "windows",
        os,
        simulated: row.simulated == Some(true),
    }
}

/// Every field said outright: what a table leaves out is not what a recipe means by saying nothing.
fn settings(row: &Row) -> Option<vram::Settings> {
    let rank = row.rank.filter(|rank| *rank > 0)?;
    let targets = row.target_names();
    let quant = match (row.quant.as_deref(), row.base_dtype.as_deref()) {
        (None | Some("none"), Some("fp16" | "float16")) => "fp16",
        (None | Some("none"), Some("fp32" | "float32")) => "fp32",
        (None | Some("none"), _) => "bf16",
        (Some(name), _) => name,
    };
    let (mlp, loss) = (row.mlp_chunk_tokens, row.loss_chunk_tokens);
    let (mlp, loss) = (mlp.filter(|many| *many > 0), loss.filter(|many| *many > 0));
    let on = |flag: Option<bool>| flag.unwrap_or(false);
    let fixes = [
        ("chunked_mlp", mlp.is_some()),
        ("save_on_cpu", on(row.save_on_cpu)),
        ("bf16_lm_head", on(row.bf16_lm_head)),
        ("logits_to_keep", on(row.logits_to_keep)),
        (
            "save_on_cpu_skips_weights",
            on(row.save_on_cpu_skips_weights),
        ),
        (
            "cache_emptied_before_adapters",
            on(row.cache_emptied_before_adapters),
        ),
        ("chunked_loss", loss.is_some()),
    ];
    let fixes: Vec<&str> = fixes.iter().filter(|fix| fix.1).map(|fix| fix.0).collect();
    let named = json!({
        "model": row.model.as_deref().unwrap_or("model"), "model_config": row.model_config,
        "quant": quant, "double_quant": row.double_quant,
        "rank": rank, "targets": targets, "dropout": row.dropout, "dora": row.dora,
        "batch": row.batch, "seq_len": row.seq_len?, "response_len": row.response_len,
        "attention": row.attention, "optimizer": row.optimizer,
        "gradient_checkpointing": on(row.gradient_checkpointing), "autocast": on(row.autocast),
        "logits_freed_before_backward": on(row.logits_freed_before_backward),
        "expandable_segments": on(row.expandable_segments),
        "memory_fixes": fixes, "mlp_chunk_tokens": mlp, "loss_chunk_tokens": loss,
    });
    let Value::Object(all) = named else {
        return None;
    };
    let given: Map<String, Value> = all
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    Some(given.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_a_recipe_can_say_are_learned_and_the_others_are_not() {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vram/data/h200.jsonl");
        let folder = tempfile::tempdir().unwrap();
        let few = folder.path().join("few.jsonl");
        let text = std::fs::read_to_string(all).unwrap();
        // Rows 10, 13 and 14 hold outputs over the backward as no recipe says it.
        let lines: Vec<&str> = text.lines().skip(7).take(7).collect();
        std::fs::write(&few, lines.join("\n\n")).unwrap();
        let mut knowledge = Knowledge::default();
        assert_eq!(learn(&mut knowledge, &few).unwrap(), (7, 4));
        let report = vram::report(&knowledge);
        assert!(report.rows[1].source.ends_with("few.jsonl:3"), "{report:?}");
        for row in report.rows {
            let off = (row.corrected_mib / row.measured_mib - 1.0).abs();
            assert!(off < 0.025, "{row:?}");
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.jsonl");
        std::fs::write(&path, "\n{\"model_config\": {}, \"rank\": \"8\"}\n").unwrap();
        let error = learn(&mut Knowledge::default(), &path).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("bad.jsonl:2: invalid type: string \"8\""),
            "{text}"
        );
        assert!(text.ends_with("at column 32"), "{text}");
    }
}
