//! The rehearsals that a trial's memory follows from, or waits for: where, how long, with which versions, and what of
//! them is in doubt.

use std::collections::BTreeMap;

use jobs::Kind;
use jobs::life::Sweep;
use proto::store::v1::RehearsalRecord;
use proto::time::rfc3339;
use proto::v1::RehearsalDocument;

use crate::engine::{Failure, OpenSweep, State, workload};
use crate::schedule::Rehearsal;

pub fn of_trial(
    state: &State,
    life: &Sweep,
    open: Option<&OpenSweep>,
    trial: u32,
) -> Vec<RehearsalDocument> {
    if state.book.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for kind in [Kind::Train, Kind::Probe] {
        if life.plan.spec.stage(kind).is_none() {
            continue;
        }
        let Some((family, rank)) = family(state, life, open, trial, kind) else {
            continue;
        };
        let mode = kind.as_str();
        all.extend(
            state
                .book
                .behind(&family, rank)
                .into_iter()
                .map(|(rank, record)| done(record, rank)),
        );
        for asked in state
            .book
            .asked
            .values()
            .filter(|one| *one.family == *family)
        {
            all.push(RehearsalDocument {
                host: Some(asked.host.clone()),
                ..bare("running", mode, asked.rank)
            });
        }
        let need = open.and_then(|open| open.need(trial, kind));
        if need.and_then(|need| state.book.waits(need)) == Some(Rehearsal::Queued) {
            all.push(bare("queued", mode, rank));
        }
        for ((_, rank, host), failure) in state.book.failed(&family) {
            all.push(failed(failure, host, mode, *rank));
        }
    }
    all
}

fn family(
    state: &State,
    life: &Sweep,
    open: Option<&OpenSweep>,
    trial: u32,
    kind: Kind,
) -> Option<(String, u64)> {
    if let Some(open) = open {
        let (family, rank) = state.sizes.family(open.need(trial, kind)?)?;
        return Some((family.to_string(), rank));
    }
    workload(life, &BTreeMap::new(), trial, kind).ok()?.family()
}

fn bare(state: &str, mode: &str, rank: u64) -> RehearsalDocument {
    RehearsalDocument {
        state: state.to_owned(),
        mode: mode.to_owned(),
        rank,
        ..RehearsalDocument::default()
    }
}

fn done(record: &RehearsalRecord, rank: u64) -> RehearsalDocument {
    RehearsalDocument {
        host: Some(record.host.clone()),
        seconds: Some(record.seconds),
        versions: record.versions.clone(),
        doubts: record.doubts.clone(),
        at: Some(rfc3339(record.at_ms)),
        ..bare("done", &record.mode, rank)
    }
}

fn failed(failure: &Failure, host: &str, mode: &str, rank: u64) -> RehearsalDocument {
    RehearsalDocument {
        host: Some(host.to_owned()),
        error: Some(format!("{}: {}", failure.error, failure.message)),
        ..bare("failed", mode, rank)
    }
}
