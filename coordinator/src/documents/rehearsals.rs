//! The rehearsals and recorded streams that a trial's memory follows from, or waits for: where, how long, for which
//! cards, with which versions, and what of them is in doubt.

use std::collections::BTreeMap;

use std::sync::Arc;

use jobs::Kind;
use jobs::life::Sweep;
use proto::store::v1::RehearsalRecord;
use proto::time::rfc3339;
use proto::v1::RehearsalDocument;
use vram::{Bytes, Mode};

use super::mib;
use crate::engine::{Book, Failure, OpenSweep, State, Subject, workload};
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
    let mut seen = Vec::new();
    for kind in [Kind::Train, Kind::Probe] {
        let Some(stage) = life.plan.spec.stage(kind) else {
            continue;
        };
        let Some((family, rank)) = family(state, life, open, trial, kind) else {
            continue;
        };
        let family: Arc<str> = family.into();
        // A probe with the trainer's steps is rehearsed as its training is.
        if seen.contains(&family) {
            continue;
        }
        let settings = life.plan.trial(trial).map(|one| life.plan.settings(one));
        let mode = match kind.mode(&settings.unwrap_or_default(), Some(&stage.settings)) {
            Mode::Probe => "probe",
            Mode::Train | Mode::Bake => "train",
        };
        for subject in Book::subjects(&family) {
            all.extend(of_subject(state, &subject, rank, mode));
        }
        let need = open.and_then(|open| open.need(trial, kind));
        if need.and_then(|need| state.book.waits(need)) == Some(Rehearsal::Queued) {
            all.push(bare("queued", mode, rank));
        }
        seen.push(family);
    }
    all
}

/// Kept, under way, and failed.
fn of_subject(state: &State, subject: &Subject, rank: u64, mode: &str) -> Vec<RehearsalDocument> {
    let behind = state.book.behind(subject, rank).into_iter();
    let mut all: Vec<RehearsalDocument> = behind.map(|(rank, record)| done(record, rank)).collect();
    let asked = state.book.asked.values();
    for asked in asked.filter(|one| one.subject == *subject) {
        all.push(RehearsalDocument {
            host: Some(asked.host.clone()),
            ..bare("running", mode, asked.rank)
        });
    }
    for ((_, rank, host), failure) in state.book.failed(subject) {
        all.push(failed(failure, host, mode, *rank));
    }
    for document in &mut all {
        subject.kernels.as_str().clone_into(&mut document.cards);
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
    let state = match record.attempt.as_str() {
        "" => "done",
        _ => "recorded",
    };
    RehearsalDocument {
        host: Some(record.host.clone()),
        seconds: Some(record.seconds),
        versions: record.versions.clone(),
        doubts: record.doubts.clone(),
        at: Some(rfc3339(record.at_ms)),
        peak_mib: (record.peak_bytes > 0).then(|| mib(Bytes(record.peak_bytes))),
        attempt: (!record.attempt.is_empty()).then(|| record.attempt.clone()),
        ..bare(state, &record.mode, rank)
    }
}

fn failed(failure: &Failure, host: &str, mode: &str, rank: u64) -> RehearsalDocument {
    RehearsalDocument {
        host: Some(host.to_owned()),
        error: Some(format!("{}: {}", failure.error, failure.message)),
        ..bare("failed", mode, rank)
    }
}
