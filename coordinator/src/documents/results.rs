//! The results table of a sweep: one row for each trial.

use jobs::life::{Attempt, Sweep};
use jobs::{Kind, Outcome, Trial};
use proto::store::v1::SweepRecord;
use proto::v1::{ResultRow, ResultsDocument};
use serde_json::Value;

use super::mib;
use super::sweep::{head, json, summary};
use crate::engine::State;

pub fn results(state: &State, record: &SweepRecord, life: &Sweep) -> ResultsDocument {
    let rows = life.plan.trials.iter().map(|trial| row(life, trial));
    ResultsDocument {
        rows: rows.collect(),
        summary: Some(summary(record, life)),
        sweep: Some(head(state, record)),
    }
}

fn row(life: &Sweep, trial: &Trial) -> ResultRow {
    let kinds: Vec<Kind> = life.plan.kinds().collect();
    let main = crate::engine::main_kind(life);
    let shown = main.and_then(|kind| telling(life, trial.index, kind));
    // Where the main job never ran, whatever did run says where the trial was.
    let shown = shown.or_else(|| {
        kinds
            .iter()
            .rev()
            .find_map(|kind| telling(life, trial.index, *kind))
    });
    let results = kinds.iter().rev().filter_map(|kind| {
        let job = life.job(trial.index, *kind)?;
        job.succeeded()?.ending()?.result.clone()
    });
    let results: Vec<Value> = results.collect();
    let number = |key: &str| results.iter().find_map(|one| one.get(key)?.as_f64());
    let loss = || {
        let metrics = &shown?.ending()?.metrics;
        metrics.get("loss").and_then(Value::as_f64)
    };
    let peaks = shown
        .and_then(|one| one.ending())
        .map(|ending| ending.peaks);
    ResultRow {
        trial: life.id.trial(trial.index).to_string(),
        params: json(&trial.params),
        host: shown.map(|one| one.placement.host.to_string()),
        device: shown.map(|one| one.placement.device_name.to_string()),
        host_class: shown.map(|one| one.placement.host_class.to_string()),
        simulated: shown.is_some_and(|one| one.placement.simulated),
        predicted_mib: shown.and_then(|one| one.placement.predicted).map(mib),
        measured_mib: peaks.and_then(|one| one.allocated).map(mib),
        seconds: shown
            .and_then(|one| one.ending())
            .map(|ending| ending.ran_ms as f64 / 1000.0),
        outcome: life.trial_outcome(trial.index).map(|one| one.to_string()),
        held_out: number("held_out"),
        result: results.first().map(ToString::to_string),
        loss: number("loss").or_else(loss),
        reason: ruled_out(life, trial.index),
    }
}

/// Why the first of its jobs that a ruling ended was not run.
fn ruled_out(life: &Sweep, trial: u32) -> Option<String> {
    let mut jobs = life.plan.kinds().filter_map(|kind| life.job(trial, kind));
    let ruling = jobs.find_map(|job| job.ruling.as_ref())?;
    (ruling.outcome == Outcome::Infeasible).then(|| ruling.reason.to_string())
}

/// The attempt that tells of a job: the one that counts, else the last.
fn telling(life: &Sweep, trial: u32, kind: Kind) -> Option<&Attempt> {
    let job = life.job(trial, kind)?;
    job.succeeded().or(job.attempts.last())
}
