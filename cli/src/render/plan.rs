//! `sweep plan` for people: trial x host, need against room, before anything is submitted; and what would make trials
//! fit, in `advice.rs`.

use std::collections::{BTreeMap, BTreeSet};

use proto::v1::{PlanDocument, PlannedTrial, VerdictDocument};

use super::format::count;
use super::paint::paint;
use super::settings::Settings;
use super::table::{Kind, named, printable};
use super::{SIMULATED, advice, verdicts, wrap};

pub fn text(plan: &PlanDocument) -> String {
    let hosts = match plan.hosts.as_slice() {
        [] => "no host is known".to_owned(),
        hosts => format!("on {}", hosts.join(", ")),
    };
    let heading = format!(
        "{}: {}, {}, {hosts}",
        plan.name,
        count(plan.trials_total, "trial"),
        count(plan.jobs_total, "job")
    );
    let mut text = format!("{}\n", wrap::paragraph(&heading, 0, 4));
    let settings = Settings::of(plan.trials.iter().map(|trial| trial.params.as_str()));
    let mut columns = named(&[("TRIAL", Kind::Figure)]);
    columns.extend(settings.columns());
    // Usually all verdicts are for the job that decides the size.
    let kinds: BTreeSet<&str> = verdicts_of(plan)
        .map(|verdict| verdict.kind.as_str())
        .collect();
    if kinds.len() > 1 {
        columns.push(("JOB".to_owned(), Kind::Word));
    }
    let mut table = verdicts::table(columns);
    for trial in &plan.trials {
        let mut first = true;
        for (verdict, devices) in verdicts::merged(&trial.verdicts) {
            let mut row = vec![if first {
                trial.index.to_string()
            } else {
                String::new()
            }];
            row.extend(settings.cells(first.then_some(trial.params.as_str())));
            row.extend((kinds.len() > 1).then(|| verdict.kind.clone()));
            row.extend(verdicts::row(verdict, devices));
            table.row(row);
            first = false;
        }
    }
    if !table.is_empty() {
        text.push_str(&table.to_string());
    }
    // With advice it is there, for each class of card.
    if !plan.advised {
        text.push_str(&would_fit(&plan.trials));
        text.push_str(&hint(plan));
    }
    text.push_str(&nowhere(&plan.trials));
    text.push_str(&lacks(&plan.trials));
    text.push_str(&advice::text(plan));
    let shown = plan.trials.len() as u32;
    if shown < plan.trials_total {
        text.push_str(&format!(
            "the first {shown} of {}\n",
            count(plan.trials_total, "trial")
        ));
    }
    if plan.simulated {
        text.push_str(SIMULATED);
    }
    paint(&text)
}

fn verdicts_of(plan: &PlanDocument) -> impl Iterator<Item = &VerdictDocument> {
    plan.trials.iter().flat_map(|trial| &trial.verdicts)
}

/// Each reason once, with the trials that it holds for.
fn nowhere(trials: &[PlannedTrial]) -> String {
    let mut reasons: Vec<(&str, u32)> = Vec::new();
    for reason in trials.iter().filter_map(|trial| trial.nowhere.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, many)) => *many += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let lines = reasons.into_iter().map(|(reason, many)| {
        let line = format!("{}: {reason}", count(many, "trial"));
        format!("{}\n", wrap::paragraph(&line, 0, 4))
    });
    lines.collect()
}

/// What hosts do not have that trials require: they are not placed there, whatever the verdict.
fn lacks(trials: &[PlannedTrial]) -> String {
    let mut found: BTreeMap<(&str, &str), BTreeSet<u32>> = BTreeMap::new();
    for trial in trials {
        for verdict in &trial.verdicts {
            for label in &verdict.lacks {
                let trials = found.entry((&verdict.host, label)).or_default();
                trials.insert(trial.index);
            }
        }
    }
    let lines = found.into_iter().map(|((host, label), trials)| {
        let many = count(trials.len() as u64, "trial");
        let (host, label) = (printable(host), printable(label));
        let line = format!("{host} does not have {label}, which {many} must have");
        format!("{}\n", wrap::paragraph(&line, 0, 4))
    });
    lines.collect()
}

fn would_fit(trials: &[PlannedTrial]) -> String {
    let lines: String = trials
        .iter()
        .filter_map(|trial| Some((trial.index, trial.would_fit.as_deref()?)))
        .map(|(index, change)| {
            wrap::alternatives(&format!("trial {index} would fit"), &printable(change))
        })
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// Where there is advice to ask for.
fn hint(plan: &PlanDocument) -> String {
    // Of what nothing is known nothing can be said.
    let short = |one: &VerdictDocument| one.verdict != "fits" && one.need_mib.is_some();
    let is_short = |trial: &&PlannedTrial| trial.verdicts.iter().any(short);
    let trials = plan.trials.iter().filter(is_short).count();
    if trials == 0 {
        return String::new();
    }
    let many = count(trials as u64, "trial");
    format!("{many} too large or uncertain somewhere: --advise says what would fit\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn the_arithmetic_is_shown() {
        let text = sample::plain(&super::text(&sample::plan()));
        sample::assert_fits(&text);
        assert!(
            text.contains("7313±120") && text.contains("too_large"),
            "{text}"
        );
        assert!(text.contains("3 x RTX 5060 Ti *"), "{text}");
        assert!(text.contains("trial 6 would fit: rank 104"), "{text}");
        let hint = "1 trial too large or uncertain somewhere: --advise says what would fit\n";
        assert!(text.contains(hint), "{text}");
        assert!(
            text.starts_with("dropout-ab: 1 trial, 3 jobs, on nvidia-8g, rig\n"),
            "{text}"
        );
    }

    #[test]
    fn advice_stands_in_the_place_of_what_would_fit() {
        let text = sample::plain(&super::text(&sample::advised()));
        sample::assert_fits(&text);
        assert!(text.contains("paged optimizer state"), "{text}");
        assert!(
            !text.contains("--advise") && !text.contains("would fit"),
            "{text}"
        );
    }

    #[test]
    fn what_a_host_does_not_have_is_named() {
        let mut plan = sample::plan();
        let verdict = &mut plan.trials[0].verdicts[0];
        verdict.lacks = vec!["dataset:2026-09-21".into()];
        let line = format!(
            "{} does not have dataset:2026-09-21, which 1 trial must have\n",
            verdict.host
        );
        let text = sample::plain(&super::text(&plan));
        assert!(text.contains(&line), "{text}");
    }

    #[test]
    fn without_hosts_it_says_so() {
        let plan = PlanDocument {
            name: "a".into(),
            ..PlanDocument::default()
        };
        assert!(super::text(&plan).contains("no host is known"));
    }
}
