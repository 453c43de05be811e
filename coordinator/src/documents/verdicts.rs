//! The table of a workload against every device: need, usable, held, verdict, and the arithmetic behind it.

use jobs::Kind;
use jobs::spec::DeviceKind;
use proto::convert;
use proto::v1::{TermDocument, VerdictDocument};
use vram::{Bytes, Estimate, Mark, Workload};

use super::mib;
use crate::advice::{Device, Seen};
use crate::engine::{Host, OpenSweep, State};
use crate::schedule::{ClassId, NeedId};

/// Which devices a job may be for at all.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub device: Option<DeviceKind>,
    pub host: Option<&'a str>,
    /// Labels that a host must have.
    pub require: &'a [String],
    pub terms: bool,
    pub kind: Kind,
}

/// Rows; and what they say to who looks for advice, which is not sought for hosts that lack what the sweep requires.
#[derive(Default)]
pub struct Judged {
    pub rows: Vec<VerdictDocument>,
    pub seen: Vec<Seen>,
}

/// All devices of all hosts: the places in it are those of [`Judged::seen`].
pub fn devices(state: &State) -> Vec<Device> {
    let of = |host: &Host| {
        let devices = host.record.devices.iter().zip(&host.classes);
        let devices = devices.map(|(device, class)| Device {
            host: host.record.name.clone(),
            name: device.name.clone(),
            class: class.clone(),
            load: convert::load(device),
        });
        devices.collect::<Vec<_>>()
    };
    state.hosts.values().flat_map(of).collect()
}

/// Of a job in memory: with what its own probe has shown.
pub fn of_need(state: &State, need: NeedId, scope: Scope<'_>) -> Judged {
    let workload = state.sizes.workload(need);
    table(state, workload, scope, |class, _| {
        (
            state.sizes.estimate(need, class),
            state.sizes.step_seconds(need, class),
        )
    })
}

/// Of any workload, before it is anybody's job.
pub fn of_workload(state: &State, workload: &Workload, scope: Scope<'_>) -> Judged {
    table(state, workload, scope, |_, class| {
        let estimate = vram::estimate(workload, class, state.sizes.knowledge());
        (estimate, vram::step_seconds(workload, class))
    })
}

fn table(
    state: &State,
    workload: &Workload,
    scope: Scope<'_>,
    ask: impl Fn(ClassId, &vram::DeviceClass) -> (Option<Estimate>, Option<f64>),
) -> Judged {
    let mut judged = Judged::default();
    let mut first = 0;
    for host in state.hosts.values() {
        let before = first;
        first += host.record.devices.len();
        if scope.host.is_some_and(|pinned| pinned != host.record.name) {
            continue;
        }
        for (at, device) in host.record.devices.iter().enumerate() {
            if scope
                .device
                .is_some_and(|kind| kind != convert::device_kind(device))
            {
                continue;
            }
            let class = &host.classes[at];
            let id = state.sizes.class_id(class).unwrap_or(ClassId(0));
            let (estimate, step) = ask(id, class);
            let verdict = vram::verdict_of(workload, estimate, class, &convert::load(device));
            let least = |known: &Estimate| known.need().saturating_sub(known.band);
            let row = row(host, at, &verdict, step, scope);
            if row.lacks.is_empty() {
                judged.seen.push(Seen {
                    device: before + at,
                    kind: verdict.kind,
                    least: verdict.estimate.as_ref().map_or(Bytes::ZERO, least),
                });
            }
            judged.rows.push(row);
        }
    }
    judged
}

fn row(
    host: &Host,
    at: usize,
    verdict: &vram::Verdict,
    step: Option<f64>,
    scope: Scope<'_>,
) -> VerdictDocument {
    let estimate = verdict.estimate.as_ref();
    let terms = match (scope.terms, estimate) {
        (true, Some(estimate)) => terms(estimate),
        _ => Vec::new(),
    };
    VerdictDocument {
        host: host.record.name.clone(),
        device: host.record.devices[at].name.clone(),
        verdict: verdict.kind.as_str().into(),
        need_mib: estimate.map(|one| mib(one.need())),
        usable_mib: mib(verdict.usable),
        held_mib: mib(verdict.held),
        band_mib: estimate.map(|one| mib(one.band)),
        source: estimate.map_or("unknown", |one| one.source.as_str()).into(),
        simulated: host.record.devices[at].simulated,
        terms,
        expected_seconds: step,
        host_class: host.class_names[at].clone(),
        kind: scope.kind.to_string(),
        lacks: lacks(host, scope.require),
    }
}

fn lacks(host: &Host, require: &[String]) -> Vec<String> {
    let lacks = require.iter().filter(|label| !host.labels.contains(*label));
    lacks.cloned().collect()
}

/// The terms of allocated, then what turns it into need.
fn terms(estimate: &Estimate) -> Vec<TermDocument> {
    let term = |name: &str, bytes, mark: Mark| TermDocument {
        name: name.into(),
        mib: mib(bytes),
        mark: mark_word(mark).into(),
    };
    let mut terms: Vec<TermDocument> = estimate
        .terms
        .iter()
        .map(|one| term(&one.name, one.bytes, one.mark))
        .collect();
    let cache = estimate.reserved.saturating_sub(estimate.allocated);
    terms.push(term(
        "allocator cache (reserved - allocated)",
        cache,
        Mark::Learned,
    ));
    terms.push(term("context", estimate.context, Mark::Measured));
    terms
}

fn mark_word(mark: Mark) -> &'static str {
    match mark {
        Mark::Computed => "computed",
        Mark::Rehearsed => "rehearsed",
        Mark::Learned => "learned",
        Mark::Measured => "measured",
        Mark::Declared => "declared",
        Mark::Unknown => "unknown",
    }
}

/// The table of one job of an open sweep.
pub fn of_job(state: &State, open: &OpenSweep, trial: u32, kind: Kind, terms: bool) -> Judged {
    let spec = &open.life.plan.spec;
    let Some(need) = open.need(trial, kind) else {
        return Judged::default();
    };
    let bound = open.bounds.get(trial as usize - 1);
    let scope = Scope {
        device: spec.device(),
        host: bound.and_then(|one| one.host.as_deref()),
        require: bound.map_or(&[], |one| &open.requires[one.require as usize]),
        terms,
        kind,
    };
    of_need(state, need, scope)
}

/// What would make it fit somewhere, in a sentence: the smallest change, on the host where it is smallest.
pub fn would_fit(
    state: &State,
    workload: &Workload,
    device: Option<DeviceKind>,
    pinned: Option<&str>,
) -> Option<String> {
    let mut best: Vec<String> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let allowed = |host: &&Host| pinned.is_none_or(|name| name == host.record.name);
    for host in state.hosts.values().filter(allowed) {
        for (at, known) in host.record.devices.iter().enumerate() {
            let class = &host.classes[at];
            let other = device.is_some_and(|kind| kind != convert::device_kind(known));
            if other || !seen.insert(class.name.clone()) {
                continue;
            }
            let load = convert::load(known);
            let all = vram::would_fit(workload, class, &load, state.sizes.knowledge());
            if let Some(first) = all.first() {
                let (host, device) = (&host.record.name, &known.name);
                let (change, need) = (&first.change, mib(first.need + first.band));
                best.push(format!("{change} on {host} {device} (need {need:.0} MiB)"));
            }
        }
    }
    (!best.is_empty()).then(|| best.join("; "))
}
