//! The tables of measured steps, predicted with nothing learned. Reads what a prediction does not
//! need, and a comparison does, straight from the rows: the context, and what was allocated after loading.

use serde::Deserialize;
use vram::{EvaluatedRow, Evaluation, evaluate};

pub const H200: &str = include_str!("../../../data/h200.jsonl");
/// Other families, lengths and switches, run after the model was made.
pub const H200_2: &str = include_str!("../../../data/h200-2.jsonl");
pub const T4: &str = include_str!("../../../data/t4.jsonl");

/// Of a row, what `vram::Row` leaves aside.
#[derive(Deserialize)]
pub struct Besides {
    pub context_mib: Option<f64>,
    pub after_load_mib: Option<f64>,
    #[serde(default)]
    pub expandable_segments: Option<bool>,
    pub dropout: Option<f64>,
    #[serde(default)]
    pub dora: Option<bool>,
}

pub struct Table {
    /// As files and answers call it.
    pub name: &'static str,
    pub title: &'static str,
    pub plain: Evaluation,
    pub besides: Vec<Besides>,
}

impl Table {
    /// Each row's answer, with what stands beside it in the table.
    pub fn rows(&self) -> impl Iterator<Item = (&EvaluatedRow, &Besides)> {
        self.plain.rows.iter().zip(&self.besides)
    }
}

fn table(name: &'static str, title: &'static str, text: &str) -> Result<Table, String> {
    let bad = |error: &dyn std::fmt::Display| format!("{name}.jsonl: {error}");
    let besides = text
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| bad(&error)));
    Ok(Table {
        name,
        title,
        plain: evaluate(text, &[], false).map_err(|error| bad(&error))?,
        besides: besides.collect::<Result<_, _>>()?,
    })
}

pub fn h200() -> Result<Table, String> {
    table("h200", "NVIDIA H200", H200)
}

/// Each row of the H200 from the others of its model.
pub fn h200_leaving_one_out() -> Result<Evaluation, String> {
    evaluate(H200, &[], true).map_err(|error| format!("h200.jsonl: {error}"))
}

pub fn t4() -> Result<Table, String> {
    table("t4", "Tesla T4", T4)
}

/// The later steps on the H200, and those of them without int8, whose memory depends on the weights.
pub fn h200_later() -> Result<(Evaluation, Evaluation), String> {
    let bad = |error: vram::EvaluateError| format!("h200-2.jsonl: {error}");
    let all = evaluate(H200_2, &[], false).map_err(bad)?;
    let others = H200_2
        .lines()
        .filter(|line| !line.contains("\"quant\": \"int8\""));
    let others = others.collect::<Vec<_>>().join("\n");
    Ok((all, evaluate(&others, &[], false).map_err(bad)?))
}
