//! The rules side by side: how far each is off on every table of measured rows, and what its verdicts would have been.
//! Counts what a rule does not answer beside what it does.

use super::history::counts;
use super::measured::Measured;
use super::rules::Rule;
use super::spread::{head, line, off_pct, pct_or_none, spread};

const TABLES: [(&str, &str); 3] = [
    ("h200", "H200: steps of four models, 3B to 8B"),
    (
        "t4",
        "Tesla T4: steps of five models, 0.1B to 1.7B (fitcheck-llm's own measurements)",
    ),
    (
        "seeds",
        "seeds: gemma 3 4B on an RX 7900 XTX, an RTX 3060 Ti and an RTX 3070 Ti",
    ),
];

fn of_table<'a>(rows: &'a [Measured], table: &'a str) -> impl Iterator<Item = &'a Measured> {
    rows.iter().filter(move |row| row.table == table)
}

pub fn sources(rules: &[Rule]) -> String {
    let mut text = head(&["rule", "what it is", "held against the measured"]);
    for rule in rules.iter().filter(|rule| !rule.about.is_empty()) {
        text.push_str(&line(&[
            rule.name.clone(),
            rule.about.clone(),
            rule.speaks.text().to_owned(),
        ]));
    }
    text
}

pub fn errors(rules: &[Rule], rows: &[Measured]) -> String {
    let mut text = String::new();
    for (table, title) in TABLES {
        text.push_str(&format!("\n{title}:\n\n"));
        text.push_str(&head(&[
            "rule", "answers", "median", "9 of 10", "max", "too low",
        ]));
        for rule in rules {
            let comparable = of_table(rows, table)
                .filter_map(|row| Some((row, rule.speaks.measured(row)?)))
                .collect::<Vec<_>>();
            let off: Vec<f64> = comparable
                .iter()
                .filter_map(|(row, measured)| Some(off_pct(rule.mib(row)?, *measured)))
                .collect();
            let low = off.iter().filter(|off| **off < 0.0).count();
            let size = spread(off.iter().copied());
            let some = !off.is_empty() && off.len() < comparable.len();
            if comparable.is_empty() || (rule.is_aside() && !some) {
                continue;
            }
            text.push_str(&line(&[
                rule.name.clone(),
                format!("{} of {}", off.len(), comparable.len()),
                pct_or_none(size.median_pct),
                pct_or_none(size.p90_pct),
                pct_or_none(size.max_pct),
                if off.is_empty() {
                    String::new()
                } else {
                    format!("{low} of {}", off.len())
                },
            ]));
        }
    }
    text.push('\n');
    text
}

pub fn verdicts(rules: &[Rule], rows: &[Measured]) -> String {
    let mut text = head(&[
        "rows",
        "rule",
        "answers",
        "false fits",
        "false \"too large\"",
        "uncertain",
    ]);
    for (table, what) in [
        ("h200", "H200 held to 7.42 GiB"),
        ("seeds", "seeds on 8 GB cards"),
    ] {
        let asked: Vec<&Measured> = of_table(rows, table)
            .filter(|row| row.room.is_some())
            .collect();
        let failed = asked.iter().filter(|row| row.failed).count();
        for rule in rules.iter().filter(|rule| rule.judges()) {
            let answers = asked
                .iter()
                .filter_map(|row| Some((rule.verdict(row)?, row.failed)));
            let counts = counts(answers);
            let shown = |count: usize| {
                if counts.n == 0 {
                    String::new()
                } else {
                    count.to_string()
                }
            };
            text.push_str(&line(&[
                format!("{what}: {failed} of {} failed", asked.len()),
                rule.name.clone(),
                format!("{} of {}", counts.n, asked.len()),
                shown(counts.false_fits),
                shown(counts.false_too_large),
                shown(counts.uncertain),
            ]));
        }
    }
    text
}
