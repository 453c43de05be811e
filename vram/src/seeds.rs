//! The measurements that the project ships (data/seeds.json: the program's own probes and real runs), as observations.
//! Rows whose recipe or length is not recorded are left out rather than guessed; what is inferred is said beside it.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::recipe::MEMORY_FIXES;
use crate::{Backend, Bytes, DeviceClass, Mode, Noted, Observation, Observed, Settings};

const SEEDS: &str = include_str!("../data/seeds.json");

#[derive(Deserialize)]
struct File {
    measurements: Vec<Older>,
    cross_gpu: CrossGpu,
}

#[derive(Deserialize)]
struct CrossGpu {
    probes: Vec<Probe>,
}

/// A row of the 8 GB box.
#[derive(Deserialize)]
struct Older {
    id: String,
    mode: String,
    rank: Option<u64>,
    dropout: Option<f64>,
    dora: Option<bool>,
    dataset_examples: Option<u64>,
    longest_example_tokens: Option<u64>,
    logits_to_keep: Option<u64>,
    dataset: Option<String>,
    pre_step_mb: Option<f64>,
    peak_mb: Option<f64>,
    result: Option<String>,
    measured_on: String,
}

/// A row of the cross-GPU probes.
#[derive(Deserialize)]
struct Probe {
    gpu: String,
    quant: String,
    memory_fixes: String,
    rank: u64,
    dropout: f64,
    dora: bool,
    seq_len: u64,
    response_len: u64,
    status: String,
    after_load_mb: f64,
    pre_step_mb: f64,
    peak_allocated_mb: f64,
    peak_reserved_mb: Option<f64>,
    step_s: Option<f64>,
    measured_on: String,
}

/// One seed row with everything that was recorded of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedRow {
    pub status: Observed,
    pub after_load: Option<Bytes>,
    pub pre_step: Option<Bytes>,
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub step_seconds: Option<f64>,
    pub noted: Noted,
    /// Id or place of the row in the seeds.
    pub source: String,
}

pub(crate) struct Seed {
    pub measured_on: String,
    pub observation: Observation,
    pub row: SeedRow,
}

/// The three classes of card that the seeds were measured on, and what each could give.
#[derive(Clone, Copy)]
enum Card {
    Rtx3070Ti,
    Rtx3060Ti,
    Rx7900Xtx,
}

impl Card {
    fn class(self) -> DeviceClass {
        let (name, backend, os) = match self {
            Self::Rtx3070Ti => ("NVIDIA GeForce RTX 3070 Ti", Backend::Cuda, "linux"),
            Self::Rtx3060Ti => ("NVIDIA GeForce RTX 3060 Ti", Backend::Cuda, "linux"),
            Self::Rx7900Xtx => ("AMD Radeon RX 7900 XTX", Backend::Rocm, "windows"),
        };
        DeviceClass {
            name: name.to_owned(),
            backend,
            os: os.to_owned(),
            spills: os == "windows",
            simulated: false,
        }
    }

    fn room(self) -> Bytes {
        Bytes::from_mib(match self {
            // 7.65 GiB, printed in every out-of-memory message.
            Self::Rtx3070Ti => 7.65 * 1024.0,
            // 7.66 GiB less the 563 MiB that an Ollama process held during the probes (memory-model 4.1).
            Self::Rtx3060Ti => 7.66 * 1024.0 - 563.0,
            Self::Rx7900Xtx => 24_560.0,
        })
    }

    fn host(self) -> &'static str {
        match self {
            Self::Rtx3070Ti | Self::Rtx3060Ti => "box",
            Self::Rx7900Xtx => "windows",
        }
    }
}

fn settings(value: Value) -> Settings {
    value
        .as_object()
        .map(|all| all.clone().into_iter().collect())
        .unwrap_or_default()
}

fn seed(measured_on: &str, card: Card, mode: Mode, settings: Settings, row: SeedRow) -> Seed {
    let observation = Observation {
        settings,
        mode,
        host: card.host().to_owned(),
        class: card.class(),
        observed: row.status,
        allocated: row.allocated,
        reserved: row.reserved,
        room: card.room(),
        source: row.source.clone(),
        noted: row.noted,
    };
    Seed {
        measured_on: measured_on.to_owned(),
        observation,
        row,
    }
}

fn of_probe(at: usize, probe: &Probe) -> Seed {
    let card = if probe.gpu.contains("7900") {
        Card::Rx7900Xtx
    } else {
        Card::Rtx3060Ti
    };
    let status = match probe.status.as_str() {
        "ok" => Observed::Ok,
        "spilled" => Observed::Spilled,
        _ => Observed::Oom,
    };
    let fixes: &[&str] = if probe.memory_fixes == "all" {
        &MEMORY_FIXES
    } else {
        &[]
    };
    let settings = settings(json!({
        "model": "unsloth/gemma-3-4b-it", "quant": probe.quant, "rank": probe.rank, "dropout": probe.dropout,
        "dora": probe.dora, "seq_len": probe.seq_len, "response_len": probe.response_len, "memory_fixes": fixes,
    }));
    let row = SeedRow {
        status,
        after_load: Some(Bytes::from_mib(probe.after_load_mb)),
        pre_step: Some(Bytes::from_mib(probe.pre_step_mb)),
        allocated: Some(Bytes::from_mib(probe.peak_allocated_mb)),
        reserved: probe.peak_reserved_mb.map(Bytes::from_mib),
        step_seconds: probe.step_s,
        noted: Noted::default(),
        source: format!("seeds: cross-GPU probe {at}"),
    };
    seed(&probe.measured_on, card, Mode::Probe, settings, row)
}

/// Longest example and its response, where recorded; else inferred from the corpus, known by its number of examples:
/// 757 are that of 15 September, 1,050 and 1,080 those of the 18th and 19th, filtered, 1,172 that of the 21st (with
/// its neighbours of 1,167, its subset of 873 and its successor of 1,189); each has a probe that names its lengths.
fn lengths(older: &Older) -> Option<(u64, u64)> {
    match (older.longest_example_tokens, older.logits_to_keep) {
        (Some(tokens), Some(response)) => Some((tokens, response)),
        (Some(7177), None) => Some((7177, 237)),
        (Some(7037), None) => Some((7037, 319)),
        // The corpus of 18 September, unfiltered: its response length was not recorded; that of the corpus before it
        // is taken, and is the one at which its two peaks agree with the closed form.
        (Some(7288), None) => Some((7288, 319)),
        (Some(_), None) => None,
        (None, _) => match (older.dataset_examples, older.dataset.as_deref()) {
            (Some(757 | 3), _) => Some((7037, 319)),
            (Some(1050), _) => Some((6931, 192)),
            (Some(1080), _) => Some((7068, 73)),
            (Some(873 | 1167 | 1172 | 1189), _) => Some((7177, 237)),
            // The first corpora: one example of 6,390 tokens is told of, with a response of 129.
            (Some(_), _) => Some((6390, 129)),
            (None, _) => None,
        },
    }
}

/// The numbers of an out-of-memory text as the seeds quote it: `OOM at step 236: 6.98 GiB allocated, 394 MiB
/// reserved-unallocated, 58 MiB free`, or `OOM (tried 70 MiB, 48 MiB free)`.
#[derive(Default)]
struct Failed {
    allocated: Option<Bytes>,
    reserved: Option<Bytes>,
    noted: Noted,
}

impl Failed {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || "(),".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        let size = |number: &str, unit: &str| {
            let number: f64 = number.parse().ok()?;
            let unit = match unit {
                "GiB" => 1024.0,
                "MiB" => 1.0,
                _ => return None,
            };
            Some(Bytes::from_mib(number * unit))
        };
        let before = |name: &str| {
            let found = words.windows(3).find(|three| three[2] == name)?;
            size(found[0], found[1])
        };
        let tried = words.windows(3).find(|three| three[0] == "tried");
        let allocated = before("allocated");
        Self {
            allocated,
            reserved: allocated
                .zip(before("reserved-unallocated"))
                .map(|(allocated, cached)| allocated + cached),
            noted: Noted {
                wanted: tried.and_then(|three| size(three[1], three[2])),
                free: before("free"),
                context: None,
            },
        }
    }
}

fn of_older(older: &Older) -> Option<Seed> {
    let rank = older.rank?;
    let mode = match older.mode.as_str() {
        "probe" => Mode::Probe,
        "real" => Mode::Train,
        _ => return None,
    };
    let result = older.result.as_deref().unwrap_or_default();
    let status = match (older.peak_mb, result.starts_with("OOM")) {
        (_, true) => Observed::Oom,
        (Some(_), false) => Observed::Ok,
        // A crash of another kind says nothing of memory.
        (None, false) => return None,
    };
    // The two later runs of v14 are of the corpus of 21 September, as their first.
    let (seq_len, response_len) =
        lengths(older).or((rank == 112 && older.dropout.is_some()).then_some((7177, 237)))?;
    let settings = settings(json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": rank, "dropout": older.dropout.unwrap_or(0.0),
        "dora": older.dora.unwrap_or(false), "seq_len": seq_len, "response_len": response_len,
        "memory_fixes": MEMORY_FIXES, "optimizer": "adamw_8bit",
    }));
    let failed = Failed::read(result);
    let row = SeedRow {
        status,
        after_load: None,
        pre_step: older.pre_step_mb.map(Bytes::from_mib),
        allocated: older.peak_mb.map(Bytes::from_mib).or(failed.allocated),
        reserved: failed.reserved,
        step_seconds: None,
        noted: failed.noted,
        source: format!("seeds: {}", older.id),
    };
    Some(seed(
        &older.measured_on,
        Card::Rtx3070Ti,
        mode,
        settings,
        row,
    ))
}

pub(crate) fn all() -> Vec<Seed> {
    // Shipped inside the program and read by its tests: it parses, or nothing of it is known.
    let Ok(file) = serde_json::from_str::<File>(SEEDS) else {
        return Vec::new();
    };
    let probes = file.cross_gpu.probes.iter().enumerate();
    let mut seeds: Vec<Seed> = probes.map(|(at, probe)| of_probe(at, probe)).collect();
    seeds.extend(file.measurements.iter().filter_map(of_older));
    seeds
}

pub(crate) fn observations() -> impl Iterator<Item = Observation> {
    all().into_iter().map(|seed| seed.observation)
}

/// The shipped observations in the order of their days, each with its day.
#[must_use]
pub fn seed_history() -> Vec<(String, Observation)> {
    let mut history: Vec<(String, Observation)> = all()
        .into_iter()
        .map(|seed| (seed.measured_on, seed.observation))
        .collect();
    history.sort_by(|a, b| a.0.cmp(&b.0));
    history
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_rows_are_all_read() {
        let seeds = all();
        let count = |status| {
            seeds
                .iter()
                .filter(|seed| seed.row.status == status)
                .count()
        };
        assert_eq!(
            seeds
                .iter()
                .filter(|seed| seed.row.step_seconds.is_some())
                .count(),
            26
        );
        assert_eq!(count(Observed::Spilled), 2);
        assert!(count(Observed::Oom) >= 9, "{}", count(Observed::Oom));
        assert!(count(Observed::Ok) >= 38, "{}", count(Observed::Ok));
    }
}
