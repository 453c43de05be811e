//! Predictions for a table of measured steps, beside what was measured: the answer of `sweep vram evaluate`.
//! Each row is planned, rehearsed and replayed; rows of other tables (or the other rows of this one) may correct it.
//! A row that ran out of memory counts for verdicts only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::architecture::Architecture;
use crate::knowledge::features;
use crate::learn::{Correction, ONE_STEP, Sample};
use crate::recipe::Quant;
use crate::replay::{Peaks, ReplaySettings, run};
use crate::row::Row;
use crate::step::{Plan, stream};
use crate::stream::Stream;
use crate::streams::{self, BAND_INT8, Origin};
use crate::verdict::VerdictKind;
use crate::{Bytes, MIB};

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("read row {line} of the table: {message}")]
pub struct EvaluateError {
    pub line: usize,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluatedRow {
    pub line: usize,
    pub model: Option<String>,
    pub gpu: Option<String>,
    pub quant: Option<String>,
    pub rank: u64,
    pub batch: u64,
    pub seq_len: u64,
    /// Absent where the activations of the model's family are not known.
    pub predicted_allocated_mib: Option<f64>,
    pub measured_allocated_mib: Option<f64>,
    pub allocated_error_pct: Option<f64>,
    pub predicted_reserved_mib: Option<f64>,
    pub measured_reserved_mib: Option<f64>,
    pub reserved_error_pct: Option<f64>,
    pub predicted_pre_step_mib: Option<f64>,
    pub measured_pre_step_mib: Option<f64>,
    pub pre_step_error_pct: Option<f64>,
    pub predicted_after_load_mib: Option<f64>,
    pub limit_mib: Option<f64>,
    /// Against `limit_mib`, where the row has one.
    pub verdict: Option<VerdictKind>,
    /// What the failing allocation would ask for, where the replay runs out.
    pub predicted_oom_wanted_mib: Option<f64>,
    pub status: Option<String>,
    /// What the prediction rests on: the stream of the shapes (`replayed`) or of the program's code (`rehearsed`), or
    /// `learned` where measurements corrected it.
    pub source: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    pub n: usize,
    pub median_pct: Option<f64>,
    pub p90_pct: Option<f64>,
    pub max_pct: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    pub false_fits: usize,
    pub false_too_large: usize,
    pub uncertain: usize,
    pub n: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub n: usize,
    pub allocated: Errors,
    pub reserved: Errors,
    pub pre_step: Errors,
    pub verdicts: VerdictCounts,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub rows: Vec<EvaluatedRow>,
    pub summary: Summary,
}

/// A row as planned and rehearsed.
struct Rehearsed {
    line: usize,
    row: Row,
    known: Option<Known>,
}

struct Known {
    plan: Plan,
    stream: Stream,
    peaks: Peaks,
    /// The stream is of the real program's code, not of the shapes.
    from_code: bool,
}

/// `rows` and each of `learn_from` are tables of JSON lines.
pub fn evaluate(
    rows: &str,
    learn_from: &[&str],
    leave_one_out: bool,
) -> Result<Evaluation, EvaluateError> {
    evaluate_with(rows, BTreeMap::new(), learn_from, leave_one_out)
}

/// The same, with streams that were made elsewhere (rehearsed by the real program's code) for lines of `rows`, counted
/// from one; a line without one is rehearsed from its shapes.
pub fn evaluate_with(
    rows: &str,
    streams: BTreeMap<usize, Stream>,
    learn_from: &[&str],
    leave_one_out: bool,
) -> Result<Evaluation, EvaluateError> {
    let rehearsed = rehearse(rows, streams)?;
    let mut others: Vec<(Family, Sample)> = Vec::new();
    for table in learn_from {
        others.extend(rehearse(table, BTreeMap::new())?.iter().filter_map(sample));
    }
    let own: Vec<_> = rehearsed.iter().map(sample).collect();
    let mut learned: BTreeMap<Family, Correction> = BTreeMap::new();
    let mut out = Vec::with_capacity(rehearsed.len());
    for (at, one) in rehearsed.iter().enumerate() {
        let Some(known) = &one.known else {
            out.push(unknown(one));
            continue;
        };
        let family = family(&known.plan, &one.row);
        let of_family = |(of, sample): &(Family, Sample)| (*of == family).then(|| sample.clone());
        let correction = if leave_one_out {
            let rest = own.iter().enumerate().filter(|(other, _)| *other != at);
            let rest = rest
                .filter_map(|(_, sample)| sample.as_ref())
                .chain(&others);
            Correction::learn(&rest.filter_map(of_family).collect::<Vec<_>>(), ONE_STEP)
        } else {
            let samples = || others.iter().filter_map(of_family).collect::<Vec<_>>();
            learned
                .entry(family.clone())
                .or_insert_with(|| Correction::learn(&samples(), ONE_STEP))
                .clone()
        };
        out.push(evaluated(one, known, &correction));
    }
    let summary = summary(&out);
    Ok(Evaluation { rows: out, summary })
}

fn rehearse(
    table: &str,
    mut streams: BTreeMap<usize, Stream>,
) -> Result<Vec<Rehearsed>, EvaluateError> {
    let lines = table
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let error = |message: String| EvaluateError {
                line: at + 1,
                message,
            };
            let row = Row::read(line).map_err(error)?;
            let plan = row.plan().map_err(error)?;
            if !crate::planning::is_reasonable(&plan) {
                return Err(error("its sizes are beyond any machine".to_owned()));
            }
            let brought = streams.remove(&(at + 1));
            let from_code = brought.is_some();
            let known = (from_code || plan.arch.family.is_known()).then(|| {
                let stream = brought.unwrap_or_else(|| stream(&plan));
                let peaks = run(&stream, settings(&row, None));
                Known {
                    plan,
                    stream,
                    peaks,
                    from_code,
                }
            });
            Ok(Rehearsed {
                line: at + 1,
                row,
                known,
            })
        })
        .collect()
}

fn settings(row: &Row, limit: Option<Bytes>) -> ReplaySettings {
    ReplaySettings {
        limit,
        expandable_segments: row.expandable_segments.unwrap_or(false),
        alive_at_peak: false,
    }
}

/// What a row that ended teaches.
fn sample(one: &Rehearsed) -> Option<(Family, Sample)> {
    let known = one.known.as_ref()?;
    let measured = one
        .row
        .peak_allocated_mib
        .filter(|_| !one.row.failed() && one.row.simulated != Some(true))?;
    let sample = Sample {
        features: features(&known.plan),
        computed: mib(known.peaks.allocated),
        measured,
        source: format!("row {}", one.line),
    };
    Some((family(&known.plan, &one.row), sample))
}

/// What one correction holds for: a model on a class of card; int8 apart, whose outliers teach nothing of the others.
type Family = (Architecture, Option<String>, bool);

fn family(plan: &Plan, row: &Row) -> Family {
    (
        plan.arch.clone(),
        row.gpu.clone(),
        plan.quant == Quant::Int8,
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn unknown(one: &Rehearsed) -> EvaluatedRow {
    let row = &one.row;
    EvaluatedRow {
        line: one.line,
        model: row.model.clone(),
        gpu: row.gpu.clone(),
        quant: row.quant.clone(),
        rank: row.rank.unwrap_or(0),
        batch: row.batch.unwrap_or(1),
        seq_len: row.seq_len.unwrap_or(0),
        predicted_allocated_mib: None,
        measured_allocated_mib: row.peak_allocated_mib,
        allocated_error_pct: None,
        predicted_reserved_mib: None,
        measured_reserved_mib: row.peak_reserved_mib,
        reserved_error_pct: None,
        predicted_pre_step_mib: None,
        measured_pre_step_mib: row.pre_step_mib,
        pre_step_error_pct: None,
        predicted_after_load_mib: None,
        limit_mib: row.limit_mib,
        verdict: row.limit_mib.map(|_| VerdictKind::Uncertain),
        predicted_oom_wanted_mib: None,
        status: row.status.clone(),
        source: "unknown".to_owned(),
    }
}

fn evaluated(one: &Rehearsed, known: &Known, correction: &Correction) -> EvaluatedRow {
    let row = &one.row;
    let (share, _) = correction.at(&features(&known.plan));
    let learned = correction.count > 0;
    let factor = if learned { 1.0 + share } else { 1.0 };
    let limited = row
        .limit_mib
        .map(|limit| run(&known.stream, settings(row, Some(Bytes::from_mib(limit)))));
    // A run that is out of memory is compared at the point where it stopped; one that ended, with the whole step, whose
    // reserved memory its limit may have held down.
    let ended = !row.failed();
    let peaks = limited
        .as_ref()
        .filter(|peaks| !ended || peaks.wanted.is_none())
        .unwrap_or(&known.peaks);
    let (allocated, reserved) = (mib(peaks.allocated) * factor, mib(peaks.reserved));
    let error = |predicted: f64, measured: Option<f64>| {
        let measured = measured.filter(|measured| *measured > 0.0)?;
        Some(((predicted / measured - 1.0).abs() * 100_000.0).round() / 1000.0)
    };
    EvaluatedRow {
        predicted_allocated_mib: Some(tenth(allocated)),
        allocated_error_pct: error(allocated, row.peak_allocated_mib).filter(|_| ended),
        predicted_reserved_mib: Some(tenth(reserved)),
        reserved_error_pct: error(reserved, row.peak_reserved_mib).filter(|_| ended),
        predicted_pre_step_mib: Some(tenth(mib(peaks.pre_step))),
        pre_step_error_pct: error(mib(peaks.pre_step), row.pre_step_mib),
        predicted_after_load_mib: Some(tenth(mib(peaks.after_load))),
        verdict: row
            .limit_mib
            .map(|limit| verdict(known, row, limit / factor)),
        predicted_oom_wanted_mib: limited
            .as_ref()
            .and_then(|peaks| peaks.wanted)
            .map(mib)
            .map(tenth),
        source: match (learned, known.from_code) {
            (true, _) => "learned",
            (false, true) => "rehearsed",
            (false, false) => "replayed",
        }
        .to_owned(),
        ..unknown(one)
    }
}

/// Fits if it does so with a band's less, too large if it does not with a band's more.
fn verdict(known: &Known, row: &Row, limit: f64) -> VerdictKind {
    let origin = if known.from_code {
        Origin::Rehearsed
    } else {
        Origin::Shapes
    };
    let band = if known.plan.quant == Quant::Int8 {
        BAND_INT8
    } else {
        streams::band(origin, &known.stream, limit)
    };
    let fits = |share: f64| {
        let limit = Bytes::from_mib(limit * share);
        run(&known.stream, settings(row, Some(limit)))
            .wanted
            .is_none()
    };
    let tries = [
        1.0 - band,
        1.0 - band / 2.0,
        1.0,
        1.0 + band / 2.0,
        1.0 + band,
    ]
    .map(fits);
    if tries.iter().all(|fits| *fits) {
        VerdictKind::Fits
    } else if tries.iter().all(|fits| !fits) {
        VerdictKind::TooLarge
    } else {
        VerdictKind::Uncertain
    }
}

fn summary(rows: &[EvaluatedRow]) -> Summary {
    let mut verdicts = VerdictCounts::default();
    for row in rows {
        let status = row.status.as_deref().map(str::to_ascii_lowercase);
        let (Some(verdict), Some(status)) = (row.verdict, status) else {
            continue;
        };
        verdicts.n += 1;
        match (verdict, status.as_str()) {
            (VerdictKind::Fits, "oom") => verdicts.false_fits += 1,
            (VerdictKind::TooLarge | VerdictKind::Spills, "ok") => verdicts.false_too_large += 1,
            (VerdictKind::Uncertain, _) => verdicts.uncertain += 1,
            _ => {}
        }
    }
    Summary {
        n: rows.len(),
        allocated: errors(rows.iter().filter_map(|row| row.allocated_error_pct)),
        reserved: errors(rows.iter().filter_map(|row| row.reserved_error_pct)),
        pre_step: errors(rows.iter().filter_map(|row| row.pre_step_error_pct)),
        verdicts,
    }
}

/// Median, ninth decile and maximum of absolute errors.
pub(crate) fn errors(values: impl Iterator<Item = f64>) -> Errors {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = match n {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    };
    Errors {
        n,
        median_pct: median,
        p90_pct: values.get((n * 9 / 10).min(n.saturating_sub(1))).copied(),
        max_pct: values.last().copied(),
    }
}
