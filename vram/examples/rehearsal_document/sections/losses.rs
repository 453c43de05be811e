//! What the memory fixes do to the loss, and the proposed changes run for real: both as a card gave them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::mib;

const LOSSES: &str = include_str!("../../../data/h200-losses.jsonl");

#[derive(Deserialize)]
struct Run {
    group: String,
    what: String,
    model: String,
    status: String,
    oom_wanted_mib: Option<f64>,
    peak_allocated_mib: Option<f64>,
    peak_reserved_mib: Option<f64>,
    losses: Option<Vec<f64>>,
}

fn runs(group: &str) -> Result<Vec<Run>, String> {
    let runs = LOSSES.lines().map(|line| {
        serde_json::from_str::<Run>(line).map_err(|error| format!("h200-losses.jsonl: {error}"))
    });
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    Ok(runs.into_iter().filter(|run| run.group == group).collect())
}

/// Against the same recipe without the fix, at each of three steps; `base again` is the noise.
pub fn fixes() -> Result<String, String> {
    let runs = runs("fixes")?;
    let base: BTreeMap<&str, &[f64]> = runs
        .iter()
        .filter(|run| run.what == "base")
        .filter_map(|run| Some((run.model.as_str(), run.losses.as_deref()?)))
        .collect();
    let mut text = String::from(
        "| model | fix | step 1 | step 2 | step 3 | peak allocated |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for run in &runs {
        let (Some(losses), Some(base)) = (&run.losses, base.get(run.model.as_str())) else {
            continue;
        };
        let steps: Vec<String> = losses
            .iter()
            .zip(*base)
            .map(|(loss, base)| {
                if run.what == "base" {
                    format!("{loss:.6}")
                } else {
                    apart(loss / base - 1.0)
                }
            })
            .collect();
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            run.model,
            run.what,
            steps.join(" | "),
            mib(run.peak_allocated_mib)
        ));
    }
    Ok(text)
}

fn apart(share: f64) -> String {
    if share == 0.0 {
        "the same".to_owned()
    } else {
        format!("{:+.4} %", share * 100.0)
    }
}

pub fn advice() -> Result<String, String> {
    let mut text = String::from(
        "| run | ended | allocated / reserved | losses |\n| --- | --- | --- | --- |\n",
    );
    for run in runs("advice")? {
        let losses = run.losses.unwrap_or_default();
        let losses: Vec<String> = losses.iter().map(|loss| format!("{loss:.4}")).collect();
        let ended = match (run.status.as_str(), run.oom_wanted_mib) {
            ("oom", Some(wanted)) => format!("out of memory wanting {wanted:.1}"),
            (status, _) => status.to_owned(),
        };
        text.push_str(&format!(
            "| {} | {ended} | {} / {} | {} |\n",
            run.what,
            mib(run.peak_allocated_mib),
            mib(run.peak_reserved_mib),
            losses.join(", ")
        ));
    }
    Ok(text)
}
