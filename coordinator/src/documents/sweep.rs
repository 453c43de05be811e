//! A whole sweep as a document: head, trials with verdicts and jobs, summary.

use std::collections::BTreeMap;

use jobs::life::{JobState, Sweep};
use jobs::{AttemptOutcome, Kind, Outcome, Trial};
use proto::store::v1::SweepRecord;
use proto::time::{rfc3339, rfc3339_if};
use proto::v1::{JobDocument, StagedFile, Summary, SweepDocument, SweepHead, TrialDocument};
use vram::VerdictKind;

use super::{attempt, rehearsals, verdicts};
use crate::engine::{OpenSweep, State};
use crate::schedule::JobKey;

/// Terms of every verdict make a document large; up to this many trials they are worth it.
const TERMS_UP_TO: usize = 100;

pub fn head(state: &State, record: &SweepRecord) -> SweepHead {
    let open = state.open.get(&record.number);
    let mut head = SweepHead {
        id: record.id.clone(),
        name: record.name.clone(),
        state: record.state.clone(),
        simulated: record.simulated,
        submitted_at: rfc3339(record.submitted_ms),
        settled_at: rfc3339_if(record.settled_ms),
        trials: record.trials,
        jobs: record.jobs,
        jobs_settled: record.jobs,
        jobs_running: 0,
        about: record.about.clone(),
    };
    if let Some(open) = open {
        let tally = open.life.tally();
        open.life.overall().as_str().clone_into(&mut head.state);
        head.jobs_running = tally.active;
        head.jobs_settled = record.jobs - tally.open - tally.active;
    }
    head
}

/// `life` is the open sweep's own, or one brought back from the store.
pub fn sweep(
    state: &State,
    record: &SweepRecord,
    life: &Sweep,
    open: Option<&OpenSweep>,
    files: Vec<StagedFile>,
) -> SweepDocument {
    let terms = life.plan.trials.len() <= TERMS_UP_TO;
    let trials = life.plan.trials.iter().map(|trial| TrialDocument {
        id: life.id.trial(trial.index).to_string(),
        params: json(&trial.params),
        verdicts: judged(state, life, open, trial, terms).rows,
        jobs: job_rows(state, record.number, life, trial),
        outcome: life.trial_outcome(trial.index).map(|one| one.to_string()),
        would_fit: would_fit(state, life, open, trial),
        rehearsals: rehearsals::of_trial(state, life, open, trial.index),
    });
    SweepDocument {
        trials: trials.collect(),
        summary: Some(summary(record, life)),
        sweep: Some(head(state, record)),
        files,
    }
}

pub(super) fn json(params: &jobs::Params) -> String {
    serde_json::to_string(params).unwrap_or_default()
}

pub(super) fn judged(
    state: &State,
    life: &Sweep,
    open: Option<&OpenSweep>,
    trial: &Trial,
    terms: bool,
) -> verdicts::Judged {
    let Some(kind) = crate::engine::main_kind(life) else {
        return verdicts::Judged::default();
    };
    if let Some(open) = open {
        return verdicts::of_job(state, open, trial.index, kind, terms);
    }
    // A settled sweep: what would be said today.
    let spec = &life.plan.spec;
    let Ok(workload) = crate::engine::workload(life, &BTreeMap::new(), trial.index, kind) else {
        return verdicts::Judged::default();
    };
    let require = crate::engine::required(&life.plan, trial);
    let scope = verdicts::Scope {
        device: spec.device(),
        host: pinned(life, trial),
        require: &require,
        terms,
        kind,
    };
    verdicts::of_workload(state, &workload, scope)
}

/// The only host that the trial may go to, if its file says so.
pub(super) fn pinned<'a>(life: &'a Sweep, trial: &'a Trial) -> Option<&'a str> {
    let own = trial.params.get("host").and_then(serde_json::Value::as_str);
    own.or(life.plan.spec.place.host.as_deref())
}

fn would_fit(
    state: &State,
    life: &Sweep,
    open: Option<&OpenSweep>,
    trial: &Trial,
) -> Option<String> {
    if life.trial_outcome(trial.index) != Some(Outcome::Infeasible) {
        return None;
    }
    let kind = crate::engine::main_kind(life)?;
    let device = life.plan.spec.device();
    if let Some(need) = open.and_then(|open| open.need(trial.index, kind)) {
        return verdicts::would_fit(
            state,
            state.sizes.workload(need),
            device,
            pinned(life, trial),
        );
    }
    let workload = crate::engine::workload(life, &BTreeMap::new(), trial.index, kind).ok()?;
    verdicts::would_fit(state, &workload, device, pinned(life, trial))
}

fn job_rows(state: &State, number: u64, life: &Sweep, trial: &Trial) -> Vec<JobDocument> {
    let kinds = life.plan.kinds();
    kinds
        .filter_map(|kind| job_row(state, number, life, trial.index, kind))
        .collect()
}

fn job_row(
    state: &State,
    number: u64,
    life: &Sweep,
    trial: u32,
    kind: Kind,
) -> Option<JobDocument> {
    let job = life.job(trial, kind)?;
    let id = life.id.trial(trial).job(kind);
    let now = life.state(trial, kind)?;
    let attempts = job.attempts.iter().map(|one| {
        let mut document = attempt(&id.attempt(one.number), one, &state.live);
        document.recipe = None;
        document
    });
    Some(JobDocument {
        attempts: attempts.collect(),
        state: now.as_str().into(),
        outcome: now.outcome().map(|one| one.to_string()),
        reason: reason(state, number, life, trial, kind, &now),
        kind: kind.to_string(),
        id: id.to_string(),
    })
}

/// Why a job waits, or why it settled without an attempt deciding it.
pub(super) fn reason(
    state: &State,
    number: u64,
    life: &Sweep,
    trial: u32,
    kind: Kind,
    now: &JobState,
) -> Option<String> {
    let job = life.job(trial, kind)?;
    match now {
        JobState::Active(_) => None,
        JobState::Blocked => {
            let after = life.plan.spec.stage(kind)?.after?;
            Some(format!("waits for its trial's {after}"))
        }
        JobState::Ready => {
            let key = JobKey {
                sweep: number,
                trial,
                kind,
            };
            let waits = state.waiting.get(&key);
            Some(waits.map_or_else(|| "in the queue".to_owned(), ToString::to_string))
        }
        JobState::Settled(Outcome::Skipped) if job.ruling.is_none() => {
            let after = life.plan.spec.stage(kind)?.after?;
            Some(format!("its trial's {after} did not succeed"))
        }
        JobState::Settled(_) => job.ruling.as_ref().map(|ruling| ruling.reason.to_string()),
    }
}

pub fn summary(record: &SweepRecord, life: &Sweep) -> Summary {
    let mut all = Summary {
        trials: record.trials,
        jobs: record.jobs,
        simulated: record.simulated,
        exit_code: u32::from(life.exit_code()),
        ..Summary::default()
    };
    let mut last_end = 0;
    for (_, _, job) in life.all_jobs() {
        for one in &job.attempts {
            all.attempts += 1;
            let seconds = one
                .ending()
                .map_or(0.0, |ending| ending.ran_ms as f64 / 1000.0);
            all.gpu_seconds += seconds * one.placement.devices.len() as f64;
            let too_large = one.outcome().is_some_and(AttemptOutcome::is_too_large);
            let promised = one.placement.verdict == VerdictKind::Fits;
            all.out_of_memory_where_fits += u32::from(too_large && promised);
            last_end = last_end.max(one.ended_at().unwrap_or(0));
        }
    }
    let trials = life.plan.trials.iter();
    let infeasible =
        trials.filter(|trial| life.trial_outcome(trial.index) == Some(Outcome::Infeasible));
    all.infeasible_trials = u32::try_from(infeasible.count()).unwrap_or(u32::MAX);
    let settled = &life.tally().settled;
    let outcomes: BTreeMap<String, u32> = settled
        .iter()
        .map(|(outcome, count)| (outcome.to_string(), *count))
        .collect();
    all.outcomes = serde_json::to_string(&outcomes).unwrap_or_default();
    let span = last_end.saturating_sub(life.submitted_at);
    all.wall_seconds = (last_end > 0).then_some(span as f64 / 1000.0);
    all
}
