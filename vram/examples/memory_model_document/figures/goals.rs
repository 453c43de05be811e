//! The checks of the memory model with their goals: what was to be reached beside what is. A goal that is missed stays
//! in the table and says so.

use vram::{Errors, ReplayStatus, VerdictCounts};

use super::history::{self, Judged};
use super::spread::{head, line, pct, spread};
use super::streams;
use super::tables::{self, Table};

struct Check {
    what: String,
    rows: usize,
    measured: String,
    goal: String,
    met: bool,
}

/// Median and maximum against theirs; a goal may name one only.
fn errors(what: &str, errors: Errors, median: Option<f64>, most: Option<f64>) -> Check {
    let sides = [
        ("median", errors.median_pct, median),
        ("max", errors.max_pct, most),
    ];
    let asked = sides.iter().filter(|(_, _, goal)| goal.is_some());
    let goal = asked.map(|(name, _, goal)| format!("{name} <= {} %", goal.unwrap_or_default()));
    let measured = sides.iter().filter_map(|(name, value, _)| {
        let value = pct((*value)?);
        // The median of one is its maximum.
        (errors.n > 1 || *name == "max").then(|| match errors.n {
            1 => value,
            _ => format!("{name} {value}"),
        })
    });
    Check {
        what: what.to_owned(),
        rows: errors.n,
        measured: measured.collect::<Vec<_>>().join(", "),
        goal: match goal.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "none".to_owned(),
            goal => goal,
        },
        met: sides.iter().all(|(_, value, goal)| match (value, goal) {
            (Some(value), Some(goal)) => value <= goal,
            (None, Some(_)) => false,
            (_, None) => true,
        }),
    }
}

/// No goal for what was uncertain means that only the wrong ones are held against it.
fn verdicts(
    what: &str,
    counts: VerdictCounts,
    too_large: Option<usize>,
    uncertain: Option<usize>,
) -> Check {
    let mut goal = "0 false fits".to_owned();
    if let Some(most) = too_large {
        goal.push_str(&format!(", {most} false \"too large\""));
    }
    if let Some(most) = uncertain {
        goal.push_str(&format!(", at most {most} uncertain"));
    }
    Check {
        what: what.to_owned(),
        rows: counts.n,
        measured: format!(
            "{} false fits, {} false \"too large\", {} uncertain",
            counts.false_fits, counts.false_too_large, counts.uncertain
        ),
        goal,
        met: counts.false_fits == 0
            && too_large.is_none_or(|most| counts.false_too_large <= most)
            && uncertain.is_none_or(|most| counts.uncertain <= most),
    }
}

fn off<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Errors {
    spread(judged.into_iter().filter_map(Judged::off_pct))
}

fn of_seeds(history: &[Judged]) -> Vec<Check> {
    let real: Vec<&Judged> = history.iter().filter(|one| one.is_real_run()).collect();
    let second_card: Vec<&Judged> = history
        .iter()
        .filter(|one| one.class.name.contains("3060") && one.off_pct().is_some())
        .collect();
    let none = second_card.iter().take(1).copied();
    let one_probe = second_card.iter().skip(1).copied();
    vec![
        errors(
            "cross-GPU probes that ended, RX 7900 XTX and RTX 3060 Ti, leave one out: allocated",
            off(&history::probes_leaving_one_out()),
            Some(0.5),
            Some(1.5),
        ),
        errors(
            "older probes of the 8 GB box, from the cross-GPU probes alone: allocated",
            off(&history::older_probes()),
            Some(0.4),
            Some(1.0),
        ),
        errors(
            "real training runs, each from what was known before it: allocated",
            off(real.iter().copied()),
            Some(2.0),
            Some(5.0),
        ),
        errors(
            "the same after the first run of the family: allocated",
            off(real.iter().copied().skip(1)),
            Some(0.5),
            None,
        ),
        errors(
            "RTX 3060 Ti, a new host of a known vendor, nothing measured there: allocated",
            off(none),
            None,
            Some(1.0),
        ),
        errors(
            "the same after one probe there: allocated",
            off(one_probe),
            None,
            Some(0.3),
        ),
        verdicts(
            "probes and real runs on the 8 GB cards, in time order: verdicts",
            history::small_card_counts(history),
            Some(0),
            Some(6),
        ),
    ]
}

fn of_tables(tables: &[Table; 2]) -> Result<Vec<Check>, String> {
    let [h200, t4] = tables;
    let (plain, others) = (&h200.plain.summary, tables::h200_leaving_one_out()?.summary);
    let (later, without_int8) = tables::h200_later()?;
    Ok(vec![
        errors(
            "steps on a Tesla T4, nothing learned: allocated",
            t4.plain.summary.allocated,
            Some(1.0),
            Some(5.0),
        ),
        errors(
            "steps on an H200, nothing learned: allocated before the step",
            plain.pre_step,
            Some(0.2),
            Some(1.0),
        ),
        errors("the same: allocated", plain.allocated, Some(2.0), Some(8.0)),
        errors("the same: reserved", plain.reserved, Some(1.0), Some(5.0)),
        errors(
            "the same, leave one out of each family: allocated",
            others.allocated,
            Some(0.7),
            Some(3.0),
        ),
        verdicts(
            "steps on an H200 held to a limit: verdicts",
            plain.verdicts,
            None,
            None,
        ),
        errors(
            "later steps on an H200, thirteen models, int8 apart, nothing learned: allocated",
            without_int8.summary.allocated,
            Some(2.0),
            Some(8.0),
        ),
        errors(
            "the same: reserved",
            without_int8.summary.reserved,
            None,
            None,
        ),
        errors(
            "the same with int8, whose outliers only the weights know",
            later.summary.allocated,
            None,
            None,
        ),
        verdicts(
            "the same held to a limit: verdicts",
            later.summary.verdicts,
            None,
            None,
        ),
    ])
}

fn of_streams() -> Result<Vec<Check>, String> {
    let (recorded, scaled) = (streams::recorded()?, streams::scaled()?);
    let exact = recorded
        .iter()
        .filter(|run| run.reserved_mib == Some(run.answer.reserved_mib))
        .count();
    let right = scaled
        .iter()
        .filter(|run| run.status == Some(run.answer.status))
        .count();
    let fitting = scaled
        .iter()
        .filter(|run| run.answer.status == ReplayStatus::Ok)
        .count();
    let allocated = spread(scaled.iter().map(streams::Replayed::allocated_off_pct));
    Ok(vec![
        Check {
            what: "recorded streams, replayed under their limit: reserved".to_owned(),
            rows: recorded.len(),
            measured: format!("{exact} exact"),
            goal: "all exact".to_owned(),
            met: exact == recorded.len(),
        },
        errors(
            "two streams scaled to other ranks: allocated",
            allocated,
            None,
            Some(0.2),
        ),
        Check {
            what: "the same: fits or out of memory".to_owned(),
            rows: scaled.len(),
            measured: format!("{right} right, {fitting} of them said to fit"),
            goal: "all right".to_owned(),
            met: right == scaled.len(),
        },
    ])
}

pub fn section(tables: &[Table; 2], history: &[Judged]) -> Result<String, String> {
    let mut checks = of_seeds(history);
    checks.extend(of_tables(tables)?);
    checks.extend(of_streams()?);
    let mut text = head(&["check", "rows", "measured", "goal", "met"]);
    for check in checks {
        text.push_str(&line(&[
            check.what,
            check.rows.to_string(),
            check.measured,
            check.goal,
            if check.met { "yes" } else { "**no**" }.to_owned(),
        ]));
    }
    Ok(text)
}
