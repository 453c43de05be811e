//! Recipes that were rehearsed on a CPU first, their predictions kept, and only then run on a card: both, side by side.

use serde::Deserialize;

use super::{mib, off, signed};

const PREDICTED: &str = include_str!("../../../data/h200-2.predicted.jsonl");
const MEASURED: &str = include_str!("../../../data/h200-2.jsonl");

#[derive(Deserialize)]
struct Predicted {
    line: usize,
    rehearsed: Option<Replayed>,
}

#[derive(Deserialize)]
struct Replayed {
    allocated_mib: f64,
    reserved_mib: f64,
    status: String,
    oom_wanted_mib: Option<f64>,
}

#[derive(Deserialize)]
struct Measured {
    model: String,
    quant: Option<String>,
    rank: u64,
    batch: u64,
    seq_len: u64,
    dropout: Option<f64>,
    dora: Option<bool>,
    attention: Option<String>,
    optimizer_steps: Option<u64>,
    expandable_segments: Option<bool>,
    limit_mib: Option<f64>,
    status: String,
    oom_wanted_mib: Option<f64>,
    peak_allocated_mib: Option<f64>,
    peak_reserved_mib: Option<f64>,
}

pub fn section() -> Result<String, String> {
    let predicted: Vec<Predicted> = lines(PREDICTED, "h200-2.predicted.jsonl")?;
    let measured: Vec<Measured> = lines(MEASURED, "h200-2.jsonl")?;
    let mut text = String::from(
        "| row | recipe | predicted | measured | allocated | reserved |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for one in predicted {
        let (Some(said), Some(row)) = (one.rehearsed, measured.get(one.line - 1)) else {
            continue;
        };
        let fits = |allocated, reserved| format!("{} / {}", mib(allocated), mib(reserved));
        let out = |wanted: Option<f64>| format!("out of memory wanting {}", mib(wanted));
        let (failed, fails) = (row.status == "oom", said.status == "oom");
        let both = !failed && !fails;
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            one.line,
            row.recipe(),
            if fails {
                out(said.oom_wanted_mib)
            } else {
                fits(Some(said.allocated_mib), Some(said.reserved_mib))
            },
            if failed {
                out(row.oom_wanted_mib)
            } else {
                fits(row.peak_allocated_mib, row.peak_reserved_mib)
            },
            signed(off(Some(said.allocated_mib), row.peak_allocated_mib).filter(|_| both)),
            signed(off(Some(said.reserved_mib), row.peak_reserved_mib).filter(|_| both)),
        ));
    }
    Ok(text)
}

fn lines<T: for<'a> Deserialize<'a>>(text: &str, name: &str) -> Result<Vec<T>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{name}: {error}")))
        .collect()
}

impl Measured {
    fn recipe(&self) -> String {
        let mut words = vec![
            self.model.clone(),
            self.quant.clone().unwrap_or_else(|| "none".to_owned()),
            format!("r{}", self.rank),
            format!("{}x{}", self.batch, self.seq_len),
        ];
        if self.dropout.unwrap_or(0.0) > 0.0 {
            words.push("dropout".to_owned());
        }
        if self.dora == Some(true) {
            words.push("DoRA".to_owned());
        }
        if self.attention.as_deref() == Some("eager") {
            words.push("eager".to_owned());
        }
        if let Some(steps) = self.optimizer_steps.filter(|steps| *steps > 0) {
            words.push(format!("{steps} steps"));
        }
        if self.expandable_segments == Some(true) {
            words.push("expandable".to_owned());
        }
        if let Some(limit) = self.limit_mib {
            words.push(format!("held to {limit:.0}"));
        }
        words.join(" ")
    }
}
