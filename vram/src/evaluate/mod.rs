//! Predictions for a table of measured steps, beside what was measured: the answer of `sweep vram evaluate`.
//! Each row is planned, rehearsed and replayed; rows of other tables (or the other rows of this one) may correct it.
//! Streams that were made elsewhere take the place of its own rehearsal from the shapes.

mod answer;
mod fix;

use std::collections::BTreeMap;

use thiserror::Error;

pub(crate) use answer::errors;
pub use answer::{Errors, EvaluatedRow, Evaluation, Summary, VerdictCounts};

use crate::architecture::Architecture;
use crate::knowledge::features;
use crate::learn::{Correction, ONE_STEP, Sample};
use crate::offset::Offset;
use crate::planning::is_reasonable;
use crate::recipe::Quant;
use crate::replay::{Peaks, ReplaySettings, run};
use crate::row::Row;
use crate::step::{Plan, stream};
use crate::stream::Stream;
use crate::streams::{self, BAND_INT8, DOUBT, Origin};
use crate::verdict::VerdictKind;
use crate::{Bytes, MIB};
use answer::summary;
use fix::Fix;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("read row {line} of the table: {message}")]
pub struct EvaluateError {
    pub line: usize,
    pub message: String,
}

/// A row as planned and rehearsed.
struct Rehearsed {
    line: usize,
    row: Row,
    known: Option<Known>,
}

struct Known {
    /// Absent where only the program's code can be read, not the shapes.
    plan: Option<Plan>,
    stream: Stream,
    peaks: Peaks,
    /// The stream is of the real program's code, not of the shapes.
    from_code: bool,
    doubtful: bool,
}

/// What rehearsing a row's recipe elsewhere gave.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Nothing where it could not be rehearsed: then nothing is predicted.
    pub stream: Option<Stream>,
    /// By versions or along a path that was never compared with a card: a wider band.
    pub doubtful: bool,
}

/// What may correct the prediction of a row; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct LearnFrom<'a> {
    /// Other tables of JSON lines. They are read from their shapes, and correct only what is.
    pub tables: &'a [&'a str],
    /// All other rows of the table.
    pub other_rows: bool,
    /// The first row of its model, card and program (with an optimizer or without one) that ended.
    pub first_row: bool,
}

/// `rows` and each of `learn_from` are tables of JSON lines.
pub fn evaluate(
    rows: &str,
    learn_from: &[&str],
    leave_one_out: bool,
) -> Result<Evaluation, EvaluateError> {
    let learn = LearnFrom {
        tables: learn_from,
        other_rows: leave_one_out,
        first_row: false,
    };
    evaluate_with(rows, BTreeMap::new(), learn)
}

/// The same, with streams that were made elsewhere (rehearsed by the real program's code) for lines of `rows`, counted
/// from one; a line without one is rehearsed from its shapes.
pub fn evaluate_with(
    rows: &str,
    streams: BTreeMap<usize, Brought>,
    learn: LearnFrom<'_>,
) -> Result<Evaluation, EvaluateError> {
    let rehearsed = rehearse(rows, streams)?;
    let mut others: Vec<(Family, Sample)> = Vec::new();
    for table in learn.tables {
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
        let Some(plan) = &known.plan else {
            out.push(evaluated(one, known, Fix::None));
            continue;
        };
        let family = family(plan, &one.row);
        let of_family = |(of, sample): &(Family, Sample)| (*of == family).then(|| sample.clone());
        // Rows of this table that are known when this one is asked about.
        let before = |other: usize| {
            let row = &rehearsed[other].row;
            other != at && (learn.other_rows || other < at && program(row) == program(&one.row))
        };
        let mut near: Vec<Sample> = Vec::new();
        if learn.other_rows || learn.first_row {
            let from_code = |other: usize| {
                let known = rehearsed[other].known.as_ref();
                known.is_some_and(|known| known.from_code)
            };
            let rest = own.iter().enumerate().filter(|(other, _)| before(*other));
            let rest = rest.filter(|(other, _)| from_code(*other) == known.from_code);
            near = rest
                .filter_map(|(_, sample)| of_family(sample.as_ref()?))
                .collect();
            if !learn.other_rows {
                near.truncate(1);
            }
        }
        let fix = if known.from_code {
            let pairs = near.iter().map(|sample| (sample.computed, sample.measured));
            Offset::learn(pairs).map_or(Fix::None, |offset| Fix::Offset(offset.mib))
        } else if near.is_empty() {
            let samples = || others.iter().filter_map(of_family).collect::<Vec<_>>();
            let learned = learned
                .entry(family.clone())
                .or_insert_with(|| Correction::learn(&samples(), ONE_STEP));
            Fix::of(learned, plan)
        } else {
            near.extend(others.iter().filter_map(of_family));
            Fix::of(&Correction::learn(&near, ONE_STEP), plan)
        };
        out.push(evaluated(one, known, fix));
    }
    let summary = summary(&out);
    Ok(Evaluation { rows: out, summary })
}

/// Which program ran: a probe has no optimizer.
fn program(row: &Row) -> Option<&str> {
    row.optimizer_steps.filter(|steps| *steps > 0)?;
    Some(row.optimizer.as_deref().unwrap_or_default())
}

fn rehearse(
    table: &str,
    mut streams: BTreeMap<usize, Brought>,
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
            row.checked().map_err(error)?;
            let brought = streams.remove(&(at + 1));
            let plan = match row.plan() {
                Ok(plan) => Some(plan),
                // What the kit was asked about is answered by it: families that the shapes do not tell, for one.
                Err(_) if brought.is_some() => None,
                Err(message) => return Err(error(message)),
            };
            if plan.as_ref().is_some_and(|plan| !is_reasonable(plan)) {
                return Err(error("its sizes are beyond any machine".to_owned()));
            }
            let from_code = brought.is_some();
            let doubtful = brought.as_ref().is_some_and(|brought| brought.doubtful);
            let stream = match brought {
                Some(brought) => brought.stream,
                None => plan
                    .as_ref()
                    .filter(|plan| plan.arch.family.is_known())
                    .map(stream),
            };
            let known = stream.map(|stream| Known {
                peaks: run(&stream, settings(&row, None)),
                plan,
                stream,
                from_code,
                doubtful,
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
        features: features(known.plan.as_ref()?),
        computed: mib(known.peaks.allocated),
        measured,
        source: format!("row {}", one.line),
    };
    Some((family(known.plan.as_ref()?, &one.row), sample))
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
        predicted_forward_peak_mib: None,
        measured_forward_peak_mib: row.forward_peak_mib,
        forward_error_pct: None,
        predicted_backward_peak_mib: None,
        measured_backward_peak_mib: row.backward_peak_mib,
        backward_error_pct: None,
        limit_mib: row.limit_mib,
        verdict: row.limit_mib.map(|_| VerdictKind::Uncertain),
        predicted_oom_wanted_mib: None,
        status: row.status.clone(),
        source: "unknown".to_owned(),
    }
}

fn evaluated(one: &Rehearsed, known: &Known, fix: Fix) -> EvaluatedRow {
    let row = &one.row;
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
    let (allocated, reserved) = (fix.forth(mib(peaks.allocated)), mib(peaks.reserved));
    let error = |predicted: f64, measured: Option<f64>| {
        let measured = measured.filter(|measured| *measured > 0.0)?;
        Some(((predicted / measured - 1.0).abs() * 100_000.0).round() / 1000.0)
    };
    // What was measured of a failed run's stages stands, where it came so far; corrections are of the whole step.
    let stage = |peak: Option<u64>, measured| error(mib(peak?), measured);
    EvaluatedRow {
        predicted_allocated_mib: Some(tenth(allocated)),
        allocated_error_pct: error(allocated, row.peak_allocated_mib).filter(|_| ended),
        predicted_reserved_mib: Some(tenth(reserved)),
        reserved_error_pct: error(reserved, row.peak_reserved_mib).filter(|_| ended),
        predicted_pre_step_mib: Some(tenth(mib(peaks.pre_step))),
        pre_step_error_pct: error(mib(peaks.pre_step), row.pre_step_mib),
        predicted_after_load_mib: Some(tenth(mib(peaks.after_load))),
        predicted_forward_peak_mib: peaks.forward.map(mib).map(tenth),
        forward_error_pct: stage(peaks.forward, row.forward_peak_mib),
        predicted_backward_peak_mib: peaks.backward.map(mib).map(tenth),
        backward_error_pct: stage(peaks.backward, row.backward_peak_mib),
        verdict: row
            .limit_mib
            .map(|limit| verdict(known, row, fix, fix.back(limit))),
        predicted_oom_wanted_mib: limited
            .as_ref()
            .and_then(|peaks| peaks.wanted)
            .map(mib)
            .map(tenth),
        source: match (fix != Fix::None, known.from_code) {
            (true, _) => "learned",
            (false, true) => "rehearsed",
            (false, false) => "replayed",
        }
        .to_owned(),
        ..unknown(one)
    }
}

/// Fits if it does so with a band's less, too large if it does not with a band's more.
fn verdict(known: &Known, row: &Row, fix: Fix, limit: f64) -> VerdictKind {
    let origin = if known.from_code {
        Origin::Rehearsed
    } else {
        Origin::Shapes
    };
    let int8 = match &known.plan {
        Some(plan) => plan.quant == Quant::Int8,
        None => row.quant.as_deref().and_then(Quant::read) == Some(Quant::Int8),
    };
    let band = if int8 {
        BAND_INT8
    } else {
        streams::band(origin, &known.stream, limit) * if known.doubtful { DOUBT } else { 1.0 }
    };
    let band = match fix {
        Fix::Offset(_) => Offset::widened(band),
        _ => band,
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
