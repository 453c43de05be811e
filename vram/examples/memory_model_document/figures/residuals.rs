//! Residuals by model for the tables of measured steps, by host and mode for the seeds, and the verdicts that stay
//! open. Residuals keep their sign: a positive one was predicted too high.

use std::collections::BTreeMap;

use vram::{EvaluatedRow, Knowledge, Mode, Observed, VerdictKind, report};

use super::history::Judged;
use super::spread::{head, line, off_pct, pct, pct_or_none, spread};
use super::tables::{Besides, Table};

fn ended(row: &EvaluatedRow) -> bool {
    row.status.as_deref() != Some("oom")
}

/// Predicted allocated against measured.
fn allocated_off(row: &EvaluatedRow) -> Option<f64> {
    let measured = row.measured_allocated_mib.filter(|_| ended(row))?;
    Some(off_pct(row.predicted_allocated_mib?, measured))
}

/// What a row was, where it is the farthest off.
fn described(row: &EvaluatedRow, besides: &Besides) -> String {
    let mut text = format!(
        "{}, rank {}, {} x {} tokens",
        row.quant
            .as_deref()
            .filter(|quant| *quant != "none")
            .unwrap_or("16 bits"),
        row.rank,
        row.batch,
        row.seq_len
    );
    if besides.dora == Some(true) {
        text.push_str(", DoRA");
    }
    if besides.dropout.is_some_and(|rate| rate > 0.0) {
        text.push_str(", dropout");
    }
    if besides.expandable_segments == Some(true) {
        text.push_str(", expandable segments");
    }
    text
}

pub fn by_model(tables: &[Table; 2]) -> String {
    let mut text = head(&[
        "card",
        "model",
        "steps",
        "allocated: median",
        "from, to",
        "farthest off",
        "reserved: median",
        "max",
        "farthest off",
    ]);
    for table in tables {
        let mut groups: BTreeMap<&str, Vec<(&EvaluatedRow, &Besides)>> = BTreeMap::new();
        for (row, besides) in table.rows().filter(|(row, _)| ended(row)) {
            let model = row.model.as_deref().unwrap_or("unnamed");
            groups.entry(model).or_default().push((row, besides));
        }
        for (model, rows) in groups {
            let off: Vec<f64> = rows
                .iter()
                .filter_map(|(row, _)| allocated_off(row))
                .collect();
            let reserved = spread(rows.iter().filter_map(|(row, _)| row.reserved_error_pct));
            let (low, high) = ends(&off);
            text.push_str(&line(&[
                table.title.to_owned(),
                model.rsplit('/').next().unwrap_or(model).to_owned(),
                rows.len().to_string(),
                pct_or_none(spread(off.iter().copied()).median_pct),
                format!("{low}, {high}"),
                farthest(&rows, allocated_off),
                pct_or_none(reserved.median_pct),
                pct_or_none(reserved.max_pct),
                farthest(&rows, |row| row.reserved_error_pct),
            ]));
        }
    }
    text
}

fn farthest(
    rows: &[(&EvaluatedRow, &Besides)],
    off: impl Fn(&EvaluatedRow) -> Option<f64>,
) -> String {
    let size = |row: &EvaluatedRow| off(row).unwrap_or_default().abs();
    let far = rows
        .iter()
        .max_by(|(a, _), (b, _)| size(a).total_cmp(&size(b)));
    far.map_or_else(String::new, |(row, besides)| described(row, besides))
}

fn ends(off: &[f64]) -> (String, String) {
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", pct(value))
    };
    let low = off.iter().copied().fold(f64::INFINITY, f64::min);
    let high = off.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (signed(low), signed(high))
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Probe => "probe",
        Mode::Train => "training run",
        Mode::Bake => "bake",
    }
}

/// What the shapes alone say of each measured peak of the seeds, and what they say once all of them are learned.
pub fn by_host() -> String {
    let known = report(&Knowledge::seeds());
    let mut groups: BTreeMap<(&str, Mode), Vec<[f64; 2]>> = BTreeMap::new();
    for row in &known.rows {
        let off = [
            off_pct(row.computed_mib, row.measured_mib),
            off_pct(row.corrected_mib, row.measured_mib),
        ];
        groups.entry((&row.device, row.mode)).or_default().push(off);
    }
    let mut text = head(&[
        "card",
        "what",
        "rows",
        "shapes alone: median",
        "from, to",
        "corrected: median",
        "from, to",
    ]);
    for ((device, kind), off) in groups {
        let side = |at: usize| -> Vec<f64> { off.iter().map(|pair| pair[at]).collect() };
        let cells = [0, 1].map(|at| {
            let (low, high) = ends(&side(at));
            (
                pct_or_none(spread(side(at)).median_pct),
                format!("{low}, {high}"),
            )
        });
        let [(computed, computed_ends), (corrected, corrected_ends)] = cells;
        text.push_str(&line(&[
            device.to_owned(),
            mode(kind).to_owned(),
            off.len().to_string(),
            computed,
            computed_ends,
            corrected,
            corrected_ends,
        ]));
    }
    if !known.outliers.is_empty() {
        text.push_str(&format!(
            "\nKept out of learning: {}.\n",
            known.outliers.join(", ")
        ));
    }
    text
}

/// The rows of the small cards that no verdict was dared on.
pub fn uncertain(history: &[Judged]) -> String {
    let mut text = head(&["row", "day", "need", "band", "room", "what happened"]);
    let open = history
        .iter()
        .filter(|one| one.is_on_a_small_card() && one.verdict == VerdictKind::Uncertain);
    for one in open {
        text.push_str(&line(&[
            one.source.clone(),
            one.day.clone(),
            format!("{:.1}", one.estimate.need().mib()),
            format!("{:.1}", one.estimate.band.mib()),
            format!("{:.1}", one.room.mib()),
            if one.observed == Observed::Oom {
                "out of memory"
            } else {
                "ran"
            }
            .to_owned(),
        ]));
    }
    text
}
