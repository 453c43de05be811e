//! Why a job is where it is: its state, the typed reason, the arithmetic, and for each device why not there.

use std::time::Instant;

use jobs::life::{JobState, Sweep};
use jobs::{Kind, Outcome};
use proto::v1::{HostReason, WhyDocument};

use super::sweep::{pinned, reason, verdict_rows};
use super::{rehearsals, verdicts};
use crate::engine::{OpenSweep, State};
use crate::schedule;

pub fn why(
    state: &State,
    number: u64,
    life: &Sweep,
    open: Option<&OpenSweep>,
    job: (u32, Kind),
    at: (u64, Instant),
) -> Option<WhyDocument> {
    let (trial, kind) = job;
    let now = life.state(trial, kind)?;
    let one = life.plan.trial(trial)?;
    let said = reason(state, number, life, trial, kind, &now);
    let mut document = WhyDocument {
        job: life.id.trial(trial).job(kind).to_string(),
        state: now.as_str().into(),
        reason: said.unwrap_or_else(|| plain(life, trial, kind, &now)),
        code: code(state, number, trial, kind, &now),
        verdicts: match open {
            Some(open) => verdicts::of_job(state, open, trial, kind, true),
            None => verdict_rows(state, life, None, one, true),
        },
        would_fit: None,
        hosts: Vec::new(),
        rehearsals: rehearsals::of_trial(state, life, open, trial),
    };
    let stuck = matches!(
        now,
        JobState::Settled(Outcome::Infeasible | Outcome::GpuOom | Outcome::Spilled)
    );
    let device = life
        .plan
        .spec
        .model
        .as_ref()
        .map(|_| jobs::spec::DeviceKind::Gpu);
    if stuck || now == JobState::Ready {
        let workload =
            crate::engine::workload(life, &std::collections::BTreeMap::new(), trial, kind).ok();
        let nothing_fits = document.verdicts.iter().all(|row| row.verdict != "fits");
        document.would_fit = workload
            .filter(|_| nothing_fits)
            .and_then(|workload| verdicts::would_fit(state, &workload, device, pinned(life, one)));
    }
    if let (Some(open), JobState::Ready) = (open, &now) {
        document.hosts = host_reasons(state, open, trial, kind, at);
    }
    Some(document)
}

fn plain(life: &Sweep, trial: u32, kind: Kind, now: &JobState) -> String {
    let job = life.job(trial, kind);
    let last = job.and_then(|job| job.attempts.last());
    match (now, last) {
        (JobState::Active(id), Some(one)) => {
            format!(
                "attempt {id} runs on {} {}",
                one.placement.host, one.placement.device_name
            )
        }
        (JobState::Settled(outcome), Some(one)) => {
            let detail = one
                .ending()
                .map(|ending| ending.detail.as_str())
                .unwrap_or_default();
            let host = &one.placement.host;
            format!(
                "{outcome} on {host}{}{detail}",
                if detail.is_empty() { "" } else { ": " }
            )
        }
        (JobState::Settled(outcome), None) => format!("{outcome} before it was placed"),
        _ => "waits".into(),
    }
}

fn code(state: &State, number: u64, trial: u32, kind: Kind, now: &JobState) -> String {
    let key = schedule::JobKey {
        sweep: number,
        trial,
        kind,
    };
    match now {
        JobState::Active(_) => "running".into(),
        JobState::Settled(outcome) => outcome.to_string(),
        JobState::Blocked => "waits_for_stage".into(),
        JobState::Ready => state
            .waiting
            .get(&key)
            .map_or("queued", |one| one.code())
            .into(),
    }
}

fn host_reasons(
    state: &State,
    open: &OpenSweep,
    trial: u32,
    kind: Kind,
    at: (u64, Instant),
) -> Vec<HostReason> {
    let key = open.key(trial, kind);
    let avoided = state.avoided();
    let snapshot = state.snapshot(&avoided, at.0, at.1, |one| one == key);
    let explained = schedule::explain(&snapshot, key);
    let rows = explained.into_iter().map(|one| {
        let host = &snapshot.hosts[one.host];
        let (code, reason) = match &one.reason {
            Some(reason) => (reason.code(), reason.to_string()),
            None => ("free", "it could start there now".to_owned()),
        };
        HostReason {
            host: host.name.to_owned(),
            device: host.devices[one.device].name.to_owned(),
            code: code.into(),
            reason,
        }
    });
    rows.collect()
}
