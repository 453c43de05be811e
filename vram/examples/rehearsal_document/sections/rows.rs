//! Rows one by one: those with a limit, those that are farthest off, and the seeds.

use vram::EvaluatedRow;

use super::goals::{OTHER_LOADING, PROGRAMS};
use super::{NOT_YET, Said, ended, mib, off, signed};

pub fn limited(h200: &Said) -> String {
    let mut text = String::from(
        "| row | rank | tokens | limit | measured | rehearsed and replayed | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in h200
        .evaluation
        .rows
        .iter()
        .filter(|row| row.limit_mib.is_some())
    {
        let sizes = |allocated, reserved| format!("{} / {}", mib(allocated), mib(reserved));
        let measured = if ended(row) {
            format!(
                "fits {}",
                sizes(row.measured_allocated_mib, row.measured_reserved_mib)
            )
        } else {
            "out of memory".to_owned()
        };
        let replayed = match row.predicted_oom_wanted_mib {
            Some(wanted) => format!("out of memory wanting {wanted:.1}"),
            None => format!(
                "fits {}",
                sizes(row.predicted_allocated_mib, row.predicted_reserved_mib)
            ),
        };
        let verdict = row
            .verdict
            .map_or_else(String::new, |kind| kind.as_str().replace('_', " "));
        text.push_str(&format!(
            "| {} | {} | {} | {} | {measured} | {replayed} | {verdict} |\n",
            row.line,
            row.rank,
            row.seq_len,
            mib(row.limit_mib)
        ));
    }
    text
}

/// Farther off than this is worth a line.
const ALLOCATED: f64 = 0.5;
const RESERVED: f64 = 2.0;

pub fn misses(h200: &Said, t4: Option<&Said>) -> String {
    let mut text = String::from(
        "| table | row | model | recipe | allocated | off | reserved | off |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let t4 = t4.map(|t4| ("t4", t4, false));
    for (name, said, with_reserved) in std::iter::once(("h200", h200, true)).chain(t4) {
        for row in said.evaluation.rows.iter().filter(|row| ended(row)) {
            let allocated = off(row.predicted_allocated_mib, row.measured_allocated_mib);
            let reserved = off(row.predicted_reserved_mib, row.measured_reserved_mib)
                .filter(|_| with_reserved);
            let far = |off: Option<f64>, most: f64| off.is_some_and(|off| off.abs() > most);
            if far(allocated, ALLOCATED) || far(reserved, RESERVED) {
                text.push_str(&miss(name, row, allocated, reserved));
            }
        }
    }
    text
}

fn miss(table: &str, row: &EvaluatedRow, allocated: Option<f64>, reserved: Option<f64>) -> String {
    let model = row.model.as_deref().unwrap_or("-");
    let other = if table == "h200" && row.line <= OTHER_LOADING {
        " (other order of loading)"
    } else {
        ""
    };
    format!(
        "| {table} | {}{other} | {} | {} r{} b{} {} tokens | {} | {} | {} | {} |\n",
        row.line,
        model.rsplit('/').next().unwrap_or(model),
        row.quant.as_deref().unwrap_or("none"),
        row.rank,
        row.batch,
        row.seq_len,
        mib(row.measured_allocated_mib),
        signed(allocated),
        mib(row.measured_reserved_mib),
        signed(reserved),
    )
}

/// By program and card: as it comes, and after the first row.
pub fn seeds(both: Option<&(Said, Said)>) -> String {
    let Some((seeds, after_one)) = both else {
        return format!("{NOT_YET}\n");
    };
    let mut text = String::from(
        "| program | card | rank | tokens | measured | as it comes | after the first |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, program) in PROGRAMS {
        let rows = seeds.evaluation.rows.iter().zip(&after_one.evaluation.rows);
        for (plain, learned) in rows.filter(|(plain, _)| program(plain)) {
            let of = |row: &EvaluatedRow| {
                signed(off(row.predicted_allocated_mib, row.measured_allocated_mib))
            };
            let after = if learned.source == "learned" {
                of(learned)
            } else {
                "the first".to_owned()
            };
            let card = plain
                .gpu
                .as_deref()
                .unwrap_or("-")
                .trim_start_matches("NVIDIA GeForce ")
                .trim_start_matches("AMD Radeon ");
            text.push_str(&format!(
                "| {name} | {card} | {}{} | {} | {} | {} | {after} |\n",
                plain.rank,
                if plain.quant.as_deref() == Some("bf16") {
                    " bf16"
                } else {
                    ""
                },
                plain.seq_len,
                mib(plain.measured_allocated_mib),
                of(plain),
            ));
        }
    }
    text
}
