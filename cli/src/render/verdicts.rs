//! Verdicts as rows: need against usable minus held. Devices of a host with the same figures are one row, so that
//! three equal cards do not make three.

use proto::v1::VerdictDocument;

use super::format::{device, duration_if, host, mib, unknown};
use super::table::{Kind, Table, named};

/// Columns of [`row`]; callers put their own before them.
pub const COLUMNS: [(&str, Kind); 7] = [
    ("HOST", Kind::Text),
    ("DEVICE", Kind::Text),
    ("NEED MiB", Kind::Figure),
    ("USABLE", Kind::Figure),
    ("HELD", Kind::Figure),
    ("VERDICT", Kind::Word),
    ("EXAMPLE", Kind::Figure),
];

pub fn table(before: Vec<(String, Kind)>) -> Table {
    Table::of([before, named(&COLUMNS)].concat())
}

/// Equal ones together, in their order, each with the number of devices.
pub fn merged(verdicts: &[VerdictDocument]) -> Vec<(&VerdictDocument, usize)> {
    let mut groups: Vec<(&VerdictDocument, usize)> = Vec::new();
    for verdict in verdicts {
        match groups.iter_mut().find(|(first, _)| is_same(first, verdict)) {
            Some((_, count)) => *count += 1,
            None => groups.push((verdict, 1)),
        }
    }
    groups
}

fn is_same(a: &VerdictDocument, b: &VerdictDocument) -> bool {
    (&a.host, &a.kind, &a.verdict, &a.source) == (&b.host, &b.kind, &b.verdict, &b.source)
        && (a.need_mib, a.usable_mib, a.held_mib) == (b.need_mib, b.usable_mib, b.held_mib)
        && a.expected_seconds == b.expected_seconds
}

/// The cells under [`COLUMNS`].
pub fn row(verdict: &VerdictDocument, devices: usize) -> [String; 7] {
    let mark = if verdict.simulated { " *" } else { "" };
    let times = if devices > 1 {
        format!("{devices} x ")
    } else {
        String::new()
    };
    [
        host(&verdict.host),
        format!("{times}{}{mark}", device(&verdict.device)),
        need(verdict),
        mib(verdict.usable_mib),
        mib(verdict.held_mib),
        verdict.verdict.clone(),
        duration_if(verdict.expected_seconds),
    ]
}

/// `7313±120`; certain needs have no band.
fn need(verdict: &VerdictDocument) -> String {
    match (verdict.need_mib, verdict.band_mib) {
        (Some(need), Some(band)) if band > 0.0 => format!("{need:.0}±{band:.0}"),
        (Some(need), _) => mib(need),
        (None, _) => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn equal_cards_are_one_row() {
        let mut other = sample::verdict("nvidia-8g", "RTX 3060 Ti");
        other.held_mib = 563.0;
        let card = sample::verdict("rig", "NVIDIA GeForce RTX 5060 Ti");
        let verdicts = [card.clone(), card.clone(), other, card];
        let merged = merged(&verdicts);
        let counts: Vec<usize> = merged.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [3, 1]);
        assert_eq!(row(merged[0].0, 3)[1], "3 x RTX 5060 Ti *");
        assert_eq!(row(merged[0].0, 3)[2], "7313±120");
    }
}
