//! What rehearsals were to show, and whether they do.

use serde::Deserialize;
use vram::{EvaluatedRow, VerdictKind};

use super::{NOT_YET, Said, ended, off, spread};

/// Rows of h200.jsonl up to this one were measured by another program: its gemma models allocate 5 MiB less after
/// loading than the rehearsed order of loading does, so the segments that loading leaves are others, too.
pub const OTHER_LOADING: usize = 35;

pub fn section(
    live_sets: &Said,
    h200: &Said,
    t4: Option<&Said>,
    seeds: Option<&(Said, Said)>,
    alone: &[Alone],
) -> String {
    let mut text =
        String::from("| check | rows | result | goal | met |\n| --- | --- | --- | --- | --- |\n");
    let mut line = |check: &str, found: Option<(usize, f64, f64)>, goal: Option<(f64, f64)>| {
        let Some((n, median, max)) = found else {
            text.push_str(&format!("| {check} | - | {NOT_YET} | - | no |\n"));
            return;
        };
        let met = goal.map(|(least, most)| median <= least && max <= most);
        let goal = goal.map_or("as it comes".to_owned(), |(least, most)| {
            if least == most {
                format!("max <= {most} %")
            } else {
                format!("median <= {least} %, max <= {most} %")
            }
        });
        let met = met.map_or("-", |met| if met { "yes" } else { "no" });
        text.push_str(&format!(
            "| {check} | {n} | median {median:.3} %, max {max:.2} % | {goal} | {met} |\n"
        ));
    };
    let rows = |said: &Said| said.evaluation.rows.clone();
    let of = |said: &Said, error: fn(&EvaluatedRow) -> Option<f64>| {
        spread(rows(said).iter().filter_map(error))
    };
    line(
        "live sets (4 layers): forward's peak",
        of(live_sets, |row| row.forward_error_pct),
        Some((0.6, 0.6)),
    );
    line(
        "live sets: backward's peak",
        of(live_sets, |row| row.backward_error_pct),
        Some((0.6, 0.6)),
    );
    let allocated = |row: &EvaluatedRow| row.allocated_error_pct.filter(|_| ended(row));
    let reserved = |row: &EvaluatedRow| row.reserved_error_pct.filter(|_| ended(row));
    line(
        "h200: peak allocated",
        of(h200, allocated),
        Some((0.1, 1.0)),
    );
    let same = rows(h200);
    let same = || same.iter().filter(|row| row.line > OTHER_LOADING);
    line(
        "h200: peak reserved, rows of the same order of loading",
        spread(same().filter_map(reserved)),
        Some((0.3, 4.0)),
    );
    line("h200: peak reserved, all rows", of(h200, reserved), None);
    line(
        "t4: peak allocated",
        t4.and_then(|t4| of(t4, allocated)),
        Some((1.0, 3.0)),
    );
    for (name, program) in PROGRAMS {
        let of_program = |said: &Said, learned: bool| {
            let rows = rows(said);
            let rows = rows
                .iter()
                .filter(|row| program(row) && (!learned || row.source == "learned"));
            spread(
                rows.filter_map(|row| off(row.predicted_allocated_mib, row.measured_allocated_mib))
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        };
        // Of the two ways to read the real runs the known one decides.
        let goal = match name {
            "probes" => Some((0.5, 1.5)),
            _ if seeds.is_some_and(|(plain, _)| nearer(plain) != name) => None,
            _ => Some((1.0, 4.0)),
        };
        line(
            &format!("seeds: {name}"),
            seeds.and_then(|(plain, _)| of_program(plain, false)),
            None,
        );
        line(
            &format!("seeds: {name}, after the first"),
            seeds.and_then(|(_, after)| of_program(after, true)),
            goal,
        );
    }
    text + &verdicts(h200) + &cost(alone)
}

type Program = (&'static str, fn(&EvaluatedRow) -> bool);

/// The programs of the seeds, by what a row says of them: a rehearsed run that keeps its optimizer's state elsewhere
/// carries another line than the same run with it (`tables.rs` puts them last).
pub const PROGRAMS: [Program; 3] = [
    ("probes", |row| row.line <= PROBES),
    ("real runs, 8-bit state on the card", |row| {
        row.line > PROBES && row.line <= PROBES + REAL
    }),
    ("real runs, the same with the state elsewhere", |row| {
        row.line > PROBES + REAL
    }),
];
pub const PROBES: usize = 33;
pub const REAL: usize = 17;

/// Which of the real runs' readings comes nearest to the first of them.
pub fn nearer(plain: &Said) -> &'static str {
    let miss = |program: &Program| {
        let first = plain.evaluation.rows.iter().find(|row| program.1(row));
        first
            .and_then(|row| off(row.predicted_allocated_mib, row.measured_allocated_mib))
            .map_or(f64::INFINITY, f64::abs)
    };
    let real = PROGRAMS.iter().filter(|(name, _)| name.starts_with("real"));
    real.min_by(|one, other| miss(one).total_cmp(&miss(other)))
        .map_or("", |(name, _)| name)
}

/// One rehearsal by itself.
#[derive(Deserialize)]
pub struct Alone {
    optimizer_steps: u64,
    seconds: f64,
    host_mib: f64,
    cores: u64,
}

fn cost(alone: &[Alone]) -> String {
    let lines = alone.iter().map(|one| {
        let steps = match one.optimizer_steps {
            0 => "forward and backward".to_owned(),
            steps => format!("{steps} steps with the optimizer"),
        };
        format!(
            "| one rehearsal of gemma 3 4B, 34 layers, 7177 tokens, {} cores: {steps} | - | {:.0} s, {:.2} GiB of host memory \
             | under 60 s, under 3 GiB | {} |\n",
            one.cores,
            one.seconds,
            one.host_mib / 1024.0,
            if one.seconds < 60.0 && one.host_mib < 3072.0 { "yes" } else { "no" }
        )
    });
    lines.collect()
}

fn verdicts(h200: &Said) -> String {
    let limited = h200
        .evaluation
        .rows
        .iter()
        .filter(|row| row.limit_mib.is_some());
    let (mut n, mut wrong_fits, mut wrong_large, mut uncertain) = (0, 0, 0, 0);
    for row in limited {
        n += 1;
        match (row.verdict, ended(row)) {
            (Some(VerdictKind::Fits), false) => wrong_fits += 1,
            (Some(VerdictKind::TooLarge), true) => wrong_large += 1,
            (Some(VerdictKind::Uncertain), _) => uncertain += 1,
            _ => {}
        }
    }
    let met = wrong_fits == 0 && wrong_large == 0 && uncertain <= 5;
    format!(
        "| h200: verdicts of rows with a limit | {n} | {wrong_fits} false fits, {wrong_large} false \"too large\", {uncertain} \
         uncertain | 0, 0, at most 5 | {} |\n",
        if met { "yes" } else { "no" }
    )
}
