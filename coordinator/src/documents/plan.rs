//! What a sweep file would do on the fleet as it is, before anything is submitted; and the snapshot that advice follows
//! from, which is asked for elsewhere: this runs on the engine's thread.

use std::collections::BTreeMap;

use jobs::life::Sweep;
use jobs::{Kind, Plan, SweepId};
use proto::v1::{PlanDocument, PlannedTrial};
use serde_json::Value;

use super::{sweep, verdicts};
use crate::advice::{Seen, Snapshot, Trial};
use crate::engine::{Refusal, State, main_kind, required, workload};

/// The plan without advice, and what advice follows from.
pub struct Planned {
    pub document: PlanDocument,
    pub snapshot: Snapshot,
    /// The job whose memory decides.
    pub kind: Kind,
}

pub fn plan(
    state: &State,
    plan: Plan,
    attached: &BTreeMap<String, Value>,
) -> Result<Planned, Refusal> {
    let name = plan.spec.name.clone();
    let jobs_total = u32::try_from(plan.jobs()).unwrap_or(u32::MAX);
    let life = Sweep::new(SweepId::new(&name, "plan"), 0, plan);
    let spec = &life.plan.spec;
    let device = spec.device();
    let kind =
        main_kind(&life).ok_or_else(|| Refusal::Invalid("a sweep without a stage".into()))?;
    let mut trials = Vec::with_capacity(life.plan.trials.len());
    let mut snapshot = Snapshot {
        devices: verdicts::devices(state),
        trials: Vec::new(),
    };
    for trial in &life.plan.trials {
        let workload = workload(&life, attached, trial.index, kind)
            .map_err(|error| Refusal::Invalid(format!("trial {}: {error}", trial.index)))?;
        let pinned = sweep::pinned(&life, trial);
        let require = required(&life.plan, trial);
        let scope = verdicts::Scope {
            device,
            host: pinned,
            require: &require,
            terms: true,
            kind,
        };
        let judged = verdicts::of_workload(state, &workload, scope);
        let kind_word = match device {
            Some(jobs::spec::DeviceKind::Cpu) => "cpu device",
            Some(jobs::spec::DeviceKind::Gpu) => "gpu",
            None => "device",
        };
        let nowhere_at_all = judged.rows.is_empty().then(|| match pinned {
            Some(host) => format!("host {host} is not known, or has no {kind_word}"),
            None => format!("no known host has a {kind_word}"),
        });
        trials.push(PlannedTrial {
            nowhere: nowhere_at_all,
            index: trial.index,
            params: sweep::json(&trial.params),
            verdicts: judged.rows,
            jobs: life.plan.kinds().map(|kind| kind.to_string()).collect(),
            would_fit: None,
        });
        // In a program of its own there is no setting to change.
        if workload.recipe.is_some() && !judged.seen.iter().all(Seen::fits) {
            snapshot.trials.push(Trial {
                index: trial.index,
                workload,
                seen: judged.seen,
            });
        }
    }
    let document = PlanDocument {
        name,
        trials_total: u32::try_from(trials.len()).unwrap_or(u32::MAX),
        jobs_total,
        trials,
        hosts: state.hosts.keys().cloned().collect(),
        simulated: state.hosts.values().any(|host| host.record.simulated),
        ..PlanDocument::default()
    };
    Ok(Planned {
        document,
        snapshot,
        kind,
    })
}
