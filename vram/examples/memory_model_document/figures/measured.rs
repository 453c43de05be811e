//! Every measured row in one form, whatever table it is from, so that each rule is asked the same question and held
//! against the same numbers. Rows that paged to system memory are left out: no rule speaks of those.

use vram::{EvaluatedRow, Mode, Observed, VerdictKind};

use super::history::Judged;
use super::tables::{Besides, Table};

/// What the driver takes beside the allocator's memory where a row did not record it: 233 to 234 MiB in the seeds'
/// out-of-memory messages. The tables' own contexts go first.
const CONTEXT: f64 = 233.5;

/// What the memory model of this repository says of a row.
pub struct Ours {
    pub allocated: Option<f64>,
    pub need: Option<f64>,
    pub verdict: VerdictKind,
}

pub struct Measured {
    /// `h200`, `t4` or `seeds`.
    pub table: &'static str,
    /// Line of the table, or name in the seeds.
    pub row: String,
    pub model: String,
    /// Of the base weights.
    pub bits: u32,
    /// None of these for a row that ran out of memory: it stopped somewhere below its peak.
    pub after_load: Option<f64>,
    pub allocated: Option<f64>,
    /// Reserved and context.
    pub need: Option<f64>,
    /// What the card, or what it was held to, could give, context included; where fitting was in question.
    pub room: Option<f64>,
    pub failed: bool,
    pub ours: Ours,
}

fn bits(quant: Option<&str>) -> Result<u32, String> {
    match quant {
        Some("nf4" | "4bit") => Ok(4),
        None | Some("none" | "bf16") => Ok(16),
        Some(other) => Err(format!("no rule is known for `{other}` weights")),
    }
}

fn of_table(table: &Table, row: &EvaluatedRow, besides: &Besides) -> Result<Measured, String> {
    let failed = row.status.as_deref() == Some("oom");
    let context = besides.context_mib.unwrap_or(CONTEXT);
    let with_context = |reserved: f64| reserved + context;
    let ended = |value: Option<f64>| value.filter(|_| !failed);
    Ok(Measured {
        table: table.name,
        row: row.line.to_string(),
        model: row.model.clone().unwrap_or_default(),
        bits: bits(row.quant.as_deref())?,
        after_load: ended(besides.after_load_mib),
        allocated: ended(row.measured_allocated_mib),
        need: ended(row.measured_reserved_mib).map(with_context),
        room: row.limit_mib.map(with_context),
        failed,
        ours: Ours {
            allocated: row.predicted_allocated_mib,
            need: row.predicted_reserved_mib.map(with_context),
            verdict: row.verdict.unwrap_or(VerdictKind::Uncertain),
        },
    })
}

fn of_seed(one: &Judged) -> Result<Measured, String> {
    let text = |key: &str| one.seen.settings.get(key).and_then(|value| value.as_str());
    let failed = one.observed == Observed::Oom;
    let ended = |value: Option<vram::Bytes>| value.filter(|_| !failed).map(vram::Bytes::mib);
    let reserved = ended(one.seen.reserved);
    Ok(Measured {
        table: "seeds",
        row: one.source.clone(),
        // The seeds were measured on a copy of this model under another owner's name.
        model: "google/gemma-3-4b-it".to_owned(),
        bits: bits(text("quant"))?,
        after_load: None,
        allocated: ended(one.seen.allocated),
        need: reserved.map(|reserved| reserved + CONTEXT),
        room: one.is_on_a_small_card().then(|| one.room.mib()),
        failed,
        ours: Ours {
            allocated: Some(one.estimate.allocated.mib()),
            need: Some(one.estimate.reserved.mib() + CONTEXT),
            verdict: one.verdict,
        },
    })
}

pub fn all(tables: &[Table], history: &[Judged]) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for table in tables {
        for (row, besides) in table.rows() {
            all.push(of_table(table, row, besides)?);
        }
    }
    for one in history {
        if one.observed != Observed::Spilled && one.mode != Mode::Bake {
            all.push(of_seed(one)?);
        }
    }
    Ok(all)
}
