//! `sweep vram report` for people: errors of the closed form, alone and corrected, by host and kind of job.

use vram::Report;

use super::evaluate::figures;
use super::word;
use crate::render::format::{count, host};
use crate::render::table::{Kind, Table, printable};
use crate::render::wrap;

/// `--json` has all.
const OUTLIERS_SHOWN: usize = 20;

pub fn text(report: &Report) -> String {
    if report.rows.is_empty() {
        return "nothing has been measured of a model that is known".to_owned();
    }
    let mut table = Table::new(&[
        ("HOST", Kind::Text),
        ("MODEL", Kind::Text),
        ("JOB", Kind::Word),
        ("RUNS", Kind::Figure),
        ("SHAPES: MEDIAN", Kind::Figure),
        ("P90", Kind::Figure),
        ("MAX", Kind::Figure),
        ("LEARNED: MEDIAN", Kind::Figure),
        ("P90", Kind::Figure),
        ("MAX", Kind::Figure),
    ]);
    for group in &report.groups {
        let [runs, alone @ ..] = figures(&group.computed);
        let [_, corrected @ ..] = figures(&group.corrected);
        let place = [
            host(&group.host),
            printable(&group.family),
            word(&group.mode),
            runs,
        ];
        table.row(place.into_iter().chain(alone).chain(corrected));
    }
    let peaks = count(report.rows.len() as u64, "measured peak");
    let mut text =
        format!("{peaks} against what is predicted for them; errors in per cent\n\n{table}");
    text.push_str(&outliers(&report.outliers));
    text
}

/// Measurements so far from all others of their kind that nothing is learned from them.
fn outliers(sources: &[String]) -> String {
    if sources.is_empty() {
        return String::new();
    }
    let shown = sources.iter().take(OUTLIERS_SHOWN);
    let mut text = "\nkept out of learning, too far from all others:\n".to_owned();
    text.extend(shown.map(|source| wrap::paragraph(&printable(source), 2, 4)));
    if sources.len() > OUTLIERS_SHOWN {
        text.push_str(&format!("  and {} more\n", sources.len() - OUTLIERS_SHOWN));
    }
    text
}
