//! What a sweep file would do on the fleet as it is, before anything is submitted.

use std::collections::BTreeMap;

use jobs::life::Sweep;
use jobs::{Plan, SweepId};
use proto::v1::{PlanDocument, PlannedTrial};
use serde_json::Value;
use vram::VerdictKind;

use super::{sweep, verdicts};
use crate::engine::{Refusal, State, main_kind, workload};

pub fn plan(
    state: &State,
    plan: Plan,
    attached: &BTreeMap<String, Value>,
) -> Result<PlanDocument, Refusal> {
    let name = plan.spec.name.clone();
    let jobs_total = u32::try_from(plan.jobs()).unwrap_or(u32::MAX);
    let life = Sweep::new(SweepId::new(&name, "plan"), 0, plan);
    let spec = &life.plan.spec;
    let device = spec
        .place
        .device
        .or(spec.model.as_ref().map(|_| jobs::spec::DeviceKind::Gpu));
    let kind =
        main_kind(&life).ok_or_else(|| Refusal::Invalid("a sweep without a stage".into()))?;
    let mut trials = Vec::with_capacity(life.plan.trials.len());
    for trial in &life.plan.trials {
        let workload = workload(&life, attached, trial.index, kind)
            .map_err(|error| Refusal::Invalid(format!("trial {}: {error}", trial.index)))?;
        let pinned = sweep::pinned(&life, trial);
        let scope = verdicts::Scope {
            device,
            host: pinned,
            terms: true,
            kind,
        };
        let rows = verdicts::of_workload(state, &workload, scope);
        let too_large = [
            VerdictKind::TooLarge,
            VerdictKind::Spills,
            VerdictKind::Offloads,
        ]
        .map(VerdictKind::as_str);
        let nowhere = !rows.is_empty()
            && rows
                .iter()
                .all(|row| too_large.contains(&row.verdict.as_str()));
        let kind_word = match device {
            Some(jobs::spec::DeviceKind::Cpu) => "cpu device",
            Some(jobs::spec::DeviceKind::Gpu) => "gpu",
            None => "device",
        };
        let nowhere_at_all = rows.is_empty().then(|| match pinned {
            Some(host) => format!("host {host} is not known, or has no {kind_word}"),
            None => format!("no known host has a {kind_word}"),
        });
        trials.push(PlannedTrial {
            nowhere: nowhere_at_all,
            index: trial.index,
            params: sweep::json(&trial.params),
            verdicts: rows,
            jobs: life.plan.kinds().map(|kind| kind.to_string()).collect(),
            would_fit: nowhere
                .then(|| verdicts::would_fit(state, &workload, device, pinned))
                .flatten(),
        });
    }
    Ok(PlanDocument {
        name,
        trials_total: u32::try_from(trials.len()).unwrap_or(u32::MAX),
        jobs_total,
        trials,
        hosts: state.hosts.keys().cloned().collect(),
        simulated: state.hosts.values().any(|host| host.record.simulated),
    })
}
