//! Why a job is where it is: its state, the typed reason, the arithmetic, and for each device why not there. What its
//! peak is made of and what would make it fit takes longer to say: what that follows from is handed on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use jobs::life::{JobState, Sweep};
use jobs::{AttemptOutcome, Kind, Outcome};
use proto::v1::{HostReason, WhyDocument};
use vram::{Kernels, Workload};

use super::sweep::{judged, reason};
use super::{rehearsals, verdicts};
use crate::advice::{Seen, Snapshot, Trial};
use crate::engine::{Book, OpenSweep, State};
use crate::schedule;

/// The document without peak and advice, and what these follow from where there is something to explain.
pub struct Why {
    pub document: WhyDocument,
    pub asked: Option<Asked>,
}

pub struct Asked {
    /// The one trial.
    pub snapshot: Snapshot,
    /// The device on which its newest attempt ran out of memory.
    pub failed_on: Option<usize>,
    /// The whole list of what would make it fit is wanted, too.
    pub would_fit: bool,
    /// The sweep file, as its submitter named it.
    pub file: String,
    /// The coordinator's data folder.
    pub data: PathBuf,
    pub rank: u64,
    /// Rank and blob of the streams that its size follows from, by the cards' kernels.
    pub kept: BTreeMap<Kernels, Vec<(u64, String)>>,
}

pub fn why(
    state: &State,
    number: u64,
    life: &Sweep,
    open: Option<&OpenSweep>,
    job: (u32, Kind),
    at: (u64, Instant),
) -> Option<Why> {
    let (trial, kind) = job;
    let now = life.state(trial, kind)?;
    let one = life.plan.trial(trial)?;
    let said = reason(state, number, life, trial, kind, &now);
    let judged = match open {
        Some(open) => verdicts::of_job(state, open, trial, kind, true),
        None => judged(state, life, None, one, true),
    };
    let mut document = WhyDocument {
        job: life.id.trial(trial).job(kind).to_string(),
        state: now.as_str().into(),
        reason: said.unwrap_or_else(|| plain(life, trial, kind, &now)),
        code: code(state, number, trial, kind, &now),
        verdicts: judged.rows,
        rehearsals: rehearsals::of_trial(state, life, open, trial),
        ..WhyDocument::default()
    };
    if let (Some(open), JobState::Ready) = (open, &now) {
        document.hosts = host_reasons(state, open, trial, kind, at);
    }
    let stuck = matches!(
        now,
        JobState::Settled(Outcome::Infeasible | Outcome::GpuOom | Outcome::Spilled)
    );
    let asked = workload(state, life, open, trial, kind).and_then(|workload| {
        let would_fit = stuck || now == JobState::Ready;
        asked(state, life, (trial, kind), workload, judged.seen, would_fit)
    });
    Some(Why { document, asked })
}

/// As the size of an open job follows from it.
fn workload(
    state: &State,
    life: &Sweep,
    open: Option<&OpenSweep>,
    trial: u32,
    kind: Kind,
) -> Option<Workload> {
    match open.and_then(|open| open.need(trial, kind)) {
        Some(need) => Some(state.sizes.workload(need).clone()),
        None => crate::engine::workload(life, &BTreeMap::new(), trial, kind).ok(),
    }
}

/// `None` for a job that fits every device, and never failed for its memory.
fn asked(
    state: &State,
    life: &Sweep,
    (trial, kind): (u32, Kind),
    workload: Workload,
    seen: Vec<Seen>,
    would_fit: bool,
) -> Option<Asked> {
    workload.recipe.as_ref()?;
    let devices = verdicts::devices(state);
    let last = life.job(trial, kind)?.attempts.last();
    let failed = last.filter(|one| one.outcome().is_some_and(AttemptOutcome::is_too_large));
    let failed_on = failed.and_then(|one| {
        let placed = &one.placement;
        let is_it = |seen: &&Seen| {
            let device = &devices[seen.device];
            (&*placed.host, &*placed.device_name) == (&*device.host, &*device.name)
        };
        seen.iter().find(is_it).map(|one| one.device)
    });
    if failed_on.is_none() && seen.iter().all(Seen::fits) {
        return None;
    }
    let mut snapshot = Snapshot {
        devices,
        trials: Vec::new(),
    };
    let (kept, rank) = kept(state, &workload);
    snapshot.trials.push(Trial {
        index: trial,
        workload,
        seen,
    });
    if let Some(device) = failed_on {
        snapshot.note_failure(device);
    }
    Some(Asked {
        snapshot,
        failed_on,
        would_fit,
        file: file_name(state, life),
        data: state.data.clone(),
        rank,
        kept,
    })
}

/// The streams that its size follows from, and its rank.
fn kept(state: &State, workload: &Workload) -> (BTreeMap<Kernels, Vec<(u64, String)>>, u64) {
    let Some((family, rank)) = workload.family() else {
        return (BTreeMap::new(), 0);
    };
    let subjects = Book::subjects(&family.into()).into_iter();
    let kept = subjects.map(|subject| {
        let behind = state.book.behind(&subject, rank).into_iter();
        let behind = behind.map(|(rank, record)| (rank, record.blob.clone()));
        (subject.kernels, behind.collect())
    });
    (kept.collect(), rank)
}

/// The name of the file that was submitted.
fn file_name(state: &State, life: &Sweep) -> String {
    let number = state.by_id.get(&life.id);
    let head = number.and_then(|number| state.heads.get(number));
    let name = head.map(|head| head.file_name.clone());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "FILE".to_owned())
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
