//! `sweep vram evaluate` for people: how far off, and the rows where it is farthest.

use vram::{Errors, EvaluatedRow, VerdictKind};

use super::{percent, tenth_if};
use crate::cmd::vram::evaluate::Document;
use crate::cmd::vram::rehearse::{Noted, Rehearsed};
use crate::render::format::{count, short, unknown};
use crate::render::paint::paint;
use crate::render::table::{Kind, Table};
use crate::render::wrap;

/// `--json` has all.
const ROWS_SHOWN: usize = 10;

pub fn text(document: &Document) -> String {
    let evaluation = &document.evaluation;
    let summary = &evaluation.summary;
    let mut table = Table::new(&[
        ("", Kind::Text),
        ("ROWS", Kind::Figure),
        ("MEDIAN %", Kind::Figure),
        ("P90 %", Kind::Figure),
        ("MAX %", Kind::Figure),
    ]);
    for (name, errors) in [
        ("peak allocated", &summary.allocated),
        ("peak reserved", &summary.reserved),
        ("before the step", &summary.pre_step),
        ("forward's peak", &summary.forward),
        ("backward's peak", &summary.backward),
    ] {
        table.row(std::iter::once(name.to_owned()).chain(figures(errors)));
    }
    let verdicts = summary.verdicts;
    let line = format!(
        "verdicts of {} with a limit: {} false \"fits\", {} false \"too large\", {} uncertain",
        count(verdicts.n as u64, "row"),
        verdicts.false_fits,
        verdicts.false_too_large,
        verdicts.uncertain
    );
    let rows = count(summary.n as u64, "row");
    let mut text = format!(
        "{rows}; absolute errors\n\n{table}\n{}",
        wrap::paragraph(&line, 0, 4)
    );
    if let Some(rehearsal) = &document.rehearsal {
        text.push_str(&rehearsed(rehearsal));
    }
    text.push_str(&worst(&evaluation.rows));
    paint(&text)
}

fn rehearsed(rehearsal: &Rehearsed) -> String {
    let mut text = format!("\nrehearsed: {}", count(rehearsal.streams as u64, "stream"));
    if let Some(seconds) = rehearsal.longest_seconds {
        text.push_str(&format!(", the longest made in {seconds:.0} s"));
    }
    if let Some(mib) = rehearsal.most_host_mib {
        text.push_str(&format!(", at most {mib:.0} MiB of host memory"));
    }
    text.push('\n');
    let mut said: Vec<&str> = Vec::new();
    for Noted { line, message } in &rehearsal.failed {
        text.push_str(&format!("row {line} was not rehearsed: {message}\n"));
    }
    for Noted { message, .. } in &rehearsal.doubts {
        if !said.contains(&message.as_str()) {
            said.push(message);
            text.push_str(&format!("doubt: {message}\n"));
        }
    }
    text
}

/// Rows, then median, ninth decile and maximum.
pub fn figures(errors: &Errors) -> [String; 4] {
    [
        errors.n.to_string(),
        percent(errors.median_pct),
        percent(errors.p90_pct),
        percent(errors.max_pct),
    ]
}

fn worst(rows: &[EvaluatedRow]) -> String {
    let mut rows: Vec<&EvaluatedRow> = rows.iter().filter(|row| is_off(row)).collect();
    // A wrong verdict is worse than any figure.
    rows.sort_by(|a, b| {
        let by = |row: &EvaluatedRow| (is_wrong(row), row.allocated_error_pct.unwrap_or(0.0));
        by(b)
            .partial_cmp(&by(a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("LINE", Kind::Figure),
        ("MODEL", Kind::Text),
        ("GPU", Kind::Text),
        ("QUANT", Kind::Word),
        ("RANK", Kind::Figure),
        ("TOKENS", Kind::Figure),
        ("PREDICTED", Kind::Figure),
        ("MEASURED", Kind::Figure),
        ("OFF %", Kind::Figure),
        ("VERDICT", Kind::Word),
        ("WAS", Kind::Word),
    ]);
    for row in rows.iter().take(ROWS_SHOWN) {
        table.row(cells(row));
    }
    format!("\nfarthest off, by peak allocated (MiB):\n{table}")
}

fn is_off(row: &EvaluatedRow) -> bool {
    is_wrong(row) || row.allocated_error_pct.is_some()
}

fn is_wrong(row: &EvaluatedRow) -> bool {
    let fits = row.verdict == Some(VerdictKind::Fits);
    match row.status.as_deref() {
        Some("oom") => fits,
        Some("ok") => !fits && row.verdict.is_some_and(|one| one != VerdictKind::Uncertain),
        _ => false,
    }
}

fn cells(row: &EvaluatedRow) -> [String; 11] {
    let name = |text: &Option<String>| match text.as_deref() {
        Some(text) => short(text.rsplit('/').next().unwrap_or(text), 20),
        None => unknown(),
    };
    [
        row.line.to_string(),
        name(&row.model),
        row.gpu
            .as_deref()
            .map_or_else(unknown, crate::render::format::device),
        row.quant.clone().unwrap_or_else(unknown),
        row.rank.to_string(),
        row.seq_len.to_string(),
        tenth_if(row.predicted_allocated_mib),
        tenth_if(row.measured_allocated_mib),
        percent(row.allocated_error_pct),
        row.verdict
            .map_or_else(unknown, |verdict| verdict.as_str().to_owned()),
        row.status.clone().unwrap_or_else(unknown),
    ]
}
