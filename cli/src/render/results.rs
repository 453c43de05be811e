//! `sweep results`, and the end of `run` and `watch`, for people: one row for each trial, best held-out score first.
//! A score that a simulation made says `simulated` beside it.

use proto::v1::{ResultRow, ResultsDocument, Summary};

use super::format::{count, device, duration, duration_if, host, mib_if, score, unknown, within};
use super::paint::paint;
use super::settings::Settings;
use super::table::{Kind, Table, named, printable};
use super::{SIMULATED, wrap};

pub fn text(document: &ResultsDocument) -> String {
    let head = document.sweep.clone().unwrap_or_default();
    let settings = Settings::of(document.rows.iter().map(|row| row.params.as_str()));
    let scored = document.rows.iter().any(|row| row.held_out.is_some());
    let mut table = Table::of(columns(&settings, scored));
    let mut rows: Vec<&ResultRow> = document.rows.iter().collect();
    // Unscored trials keep their order, after the scored ones.
    rows.sort_by(|a, b| match (a.held_out, b.held_out) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    for row in &rows {
        table.row(cells(row, &head.id, &settings, scored));
    }
    let mut text = format!(
        "{}: {}\n\n{table}\n{}{}",
        head.id,
        head.state,
        reasons(&rows, &head.id),
        summary(document.summary.as_ref())
    );
    if document.rows.iter().any(|row| row.simulated) {
        text.push_str(&format!("\n{SIMULATED}"));
    }
    paint(&text)
}

fn columns(settings: &Settings, scored: bool) -> Vec<(String, Kind)> {
    let mut columns = named(&[("TRIAL", Kind::Figure)]);
    columns.extend(settings.columns());
    columns.extend(named(&[
        ("HOST", Kind::Text),
        ("DEVICE", Kind::Text),
        ("PREDICTED", Kind::Figure),
        ("PEAK MiB", Kind::Figure),
        ("TIME", Kind::Figure),
        ("OUTCOME", Kind::Word),
    ]));
    // A sweep that only measures memory has no scores.
    columns.extend(named(&[("HELD-OUT", Kind::Word)][..usize::from(scored)]));
    columns
}

fn cells(row: &ResultRow, sweep: &str, settings: &Settings, scored: bool) -> Vec<String> {
    let mark = if row.simulated { " *" } else { "" };
    let mut cells = vec![within(&row.trial, sweep).to_owned()];
    cells.extend(settings.cells(Some(&row.params)));
    cells.extend([
        row.host.as_deref().map_or_else(unknown, host),
        row.device
            .as_deref()
            .map_or_else(unknown, |name| format!("{}{mark}", device(name))),
        mib_if(row.predicted_mib),
        mib_if(row.measured_mib),
        duration_if(row.seconds),
        row.outcome.clone().unwrap_or_else(|| "open".to_owned()),
    ]);
    if scored {
        let simulated = if row.simulated { " simulated" } else { "" };
        cells.push(
            row.held_out
                .map_or_else(unknown, |value| format!("{}{simulated}", score(value))),
        );
    }
    cells
}

/// More are counted only; `sweep why JOB` has each.
const REASONS: usize = 10;

/// Why trials that never ran did not; those with one reason together.
fn reasons(rows: &[&ResultRow], sweep: &str) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let Some(reason) = row.reason.as_deref() else {
            continue;
        };
        let trial = within(&row.trial, sweep);
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, trials)) => trials.push(trial),
            None => by_reason.push((reason, vec![trial])),
        }
    }
    let mut text = String::new();
    for (reason, trials) in by_reason.iter().take(REASONS) {
        let line = format!("trial {}: {}", trials.join(", "), printable(reason));
        text.push_str(&wrap::paragraph(&line, 0, 4));
    }
    if by_reason.len() > REASONS {
        text.push_str(&format!(
            "{} more reasons: sweep why JOB\n",
            by_reason.len() - REASONS
        ));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// One or two lines: what came of all jobs.
pub fn summary(summary: Option<&Summary>) -> String {
    let Some(summary) = summary else {
        return String::new();
    };
    let mut parts = vec![
        count(summary.trials, "trial"),
        count(summary.jobs, "job"),
        count(summary.attempts, "attempt"),
    ];
    let outcomes = outcomes(&summary.outcomes);
    if !outcomes.is_empty() {
        parts.push(outcomes);
    }
    let mut text = parts.join(", ");
    text.push_str(&format!("\ndevice time {}", duration(summary.gpu_seconds)));
    if let Some(wall) = summary.wall_seconds {
        text.push_str(&format!(", {} from submission to end", duration(wall)));
    }
    if summary.out_of_memory_where_fits > 0 {
        let times = count(summary.out_of_memory_where_fits, "attempt");
        text.push_str(&format!(
            "\n{times} ran out of memory where the verdict said fits"
        ));
    }
    text
}

/// `12 succeeded, 1 infeasible` from the summary's JSON.
fn outcomes(json: &str) -> String {
    let counts: std::collections::BTreeMap<String, u64> =
        serde_json::from_str(json).unwrap_or_default();
    let mut counts: Vec<_> = counts
        .into_iter()
        .filter(|(_, number)| *number > 0)
        .collect();
    counts.sort_by_key(|(name, number)| (std::cmp::Reverse(*number), name.clone()));
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, number)| format!("{number} {name}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::render::sample;

    #[test]
    fn the_table_reads_as_documented() {
        let text = sample::plain(&super::text(&sample::results()));
        sample::assert_fits(&text);
        let expected = "\
dropout-ab-k3f9q2: succeeded

TRIAL  dropout  rank  HOST  DEVICE         PREDICTED  PEAK MiB    TIME  OUTCOME     HELD-OUT
    2      0.1    96  rig   RTX 5060 Ti *       7313      7298  3h 12m  succeeded   0.9130 simulated
    1      0.0    96  rig   RTX 5060 Ti *       7313      7301  3h 09m  succeeded   0.9120 simulated
    6      0.1   112  -     -                      -         -       -  infeasible  -

trial 6: too large for every known device: the best, box RTX 3070 Ti, has 7834 of 7912 ± 78 MiB

6 trials, 18 jobs, 15 attempts, 12 succeeded, 3 skipped
device time 14h 03m, 1m 05s from submission to end
* simulated device: its figures are not measurements";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn a_measured_sweep_says_nothing_of_simulation() {
        let mut document = sample::results();
        for row in &mut document.rows {
            row.simulated = false;
        }
        assert!(!super::text(&document).contains("simulated"));
    }

    #[test]
    fn long_names_and_many_axes_still_fit() {
        let mut document = sample::results();
        for row in &mut document.rows {
            row.host = Some("a-host-with-a-name-of-forty-characters-xx".into());
            row.device = Some("NVIDIA RTX PRO 6000 Blackwell Workstation Edition".into());
            row.params = r#"{"learning_rate":0.00031,"hidden":128,"l2":0.0001,"corpus":"2026-09-21","rank":112}"#.into();
        }
        let text = sample::plain(&super::text(&document));
        sample::assert_fits(&text);
        assert!(
            text.contains("7313") && text.contains("learning_rate=0.00031"),
            "{text}"
        );
    }
}
