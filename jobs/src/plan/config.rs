//! The document that a job's program finds at `$SWEEP_CONFIG`: all it has to know, and nothing of the host.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{AttemptId, Kind, Plan, Trial};

/// `inputs` are the results of the trial's earlier jobs by kind; `time_scale` is only for simulated hosts.
#[must_use]
pub fn config_json(
    plan: &Plan,
    trial: &Trial,
    attempt: &AttemptId,
    inputs: &BTreeMap<Kind, Value>,
    time_scale: Option<f64>,
) -> Value {
    let kind = attempt.job.kind;
    let stage = plan.spec.stage(kind);
    let inputs: Map<String, Value> = inputs
        .iter()
        .map(|(kind, result)| (kind.to_string(), result.clone()))
        .collect();
    let mut config = json!({
        "sweep": attempt.job.sweep.as_str(),
        "trial": attempt.job.trial().to_string(),
        "job": attempt.job.to_string(),
        "kind": kind,
        "attempt": attempt.number,
        "seed": plan.seed(trial),
        "params": plan.settings(trial),
        "stage": stage.map(|stage| &stage.settings),
        "inputs": inputs,
    });
    if let Some(scale) = time_scale {
        config["time_scale"] = scale.into();
    }
    config
}
