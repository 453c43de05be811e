//! The sections of docs/rehearsal.md, each from shipped data alone. Judges nothing but against the goals written here.

mod before;
mod goals;
mod losses;
mod rows;

use std::collections::BTreeMap;

use serde::Deserialize;
use vram::{EvaluatedRow, Evaluation};

/// As `sweep vram evaluate --rehearse --json` wrote it.
#[derive(Deserialize)]
pub struct Said {
    #[serde(flatten)]
    pub evaluation: Evaluation,
    pub rehearsal: Rehearsal,
}

#[derive(Deserialize)]
pub struct Rehearsal {
    pub streams: usize,
    pub versions: Option<BTreeMap<String, Option<String>>>,
    pub longest_seconds: Option<f64>,
    pub most_host_mib: Option<f64>,
}

/// `table` gives what was said of a table, or nothing where it was not rehearsed yet.
pub fn all(
    table: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<&'static str, String>, String> {
    let read = |name: &str| {
        let said = table(name).map(|text| serde_json::from_str::<Said>(&text));
        said.transpose()
            .map_err(|error| format!("rehearsed/{name}.json: {error}"))
    };
    let needed = |name: &str| read(name)?.ok_or(format!("rehearsed/{name}.json is missing"));
    let (h200, live_sets) = (needed("h200")?, needed("live-sets")?);
    let (t4, seeds, after_one) = (read("t4")?, read("seeds")?, read("seeds-after-one")?);
    let seeds = seeds.zip(after_one);
    let alone = table("alone").map_or(Ok(Vec::new()), |text| serde_json::from_str(&text));
    let alone: Vec<goals::Alone> =
        alone.map_err(|error| format!("rehearsed/alone.json: {error}"))?;
    let present: Vec<&Said> = [Some(&live_sets), Some(&h200), t4.as_ref()]
        .into_iter()
        .flatten()
        .chain(seeds.as_ref().map(|(plain, _)| plain))
        .collect();
    Ok(BTreeMap::from([
        (
            "goals",
            goals::section(&live_sets, &h200, t4.as_ref(), seeds.as_ref(), &alone),
        ),
        ("made", made(&present)),
        ("limited", rows::limited(&h200)),
        ("misses", rows::misses(&h200, t4.as_ref())),
        ("seeds", rows::seeds(seeds.as_ref())),
        ("before", before::section()?),
        ("losses", losses::fixes()?),
        ("advice", losses::advice()?),
    ]))
}

/// What stands where a table was not rehearsed yet.
pub const NOT_YET: &str = "not rehearsed yet with this kit";

fn made(all: &[&Said]) -> String {
    let streams: usize = all.iter().map(|said| said.rehearsal.streams).sum();
    let most = |value: fn(&Rehearsal) -> Option<f64>| {
        all.iter()
            .filter_map(|said| value(&said.rehearsal))
            .fold(0.0, f64::max)
    };
    let versions = all.iter().find_map(|said| said.rehearsal.versions.as_ref());
    let versions: Vec<String> = versions
        .into_iter()
        .flatten()
        .map(|(name, version)| format!("{name} {}", version.as_deref().unwrap_or("missing")))
        .collect();
    format!(
        "{streams} streams by {}; at most {:.0} MiB of host memory each, the longest in {:.0} s while others ran beside it.\n",
        versions.join(", "),
        most(|said| said.most_host_mib),
        most(|said| said.longest_seconds),
    )
}

/// Signed, in per cent.
pub fn off(predicted: Option<f64>, measured: Option<f64>) -> Option<f64> {
    let measured = measured.filter(|measured| *measured > 0.0)?;
    Some((predicted? / measured - 1.0) * 100.0)
}

pub fn signed(off: Option<f64>) -> String {
    off.map_or_else(|| "-".to_owned(), |off| format!("{off:+.2} %"))
}

pub fn mib(size: Option<f64>) -> String {
    size.map_or_else(|| "-".to_owned(), |size| format!("{size:.1}"))
}

pub fn ended(row: &EvaluatedRow) -> bool {
    row.status.as_deref() != Some("oom")
}

/// Median and maximum of absolute values.
pub fn spread(values: impl Iterator<Item = f64>) -> Option<(usize, f64, f64)> {
    let mut values: Vec<f64> = values.map(f64::abs).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let middle = values.get(n / 2)?;
    let median = if n % 2 == 1 {
        *middle
    } else {
        (values[n / 2 - 1] + middle) / 2.0
    };
    Some((n, median, *values.last()?))
}
