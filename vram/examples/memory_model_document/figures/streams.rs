//! The recorded streams of real runs, replayed, and two of them scaled to ranks that neither ran, beside what the card
//! measured. Measured figures are those of the same runs in data/h200.jsonl.

use vram::{Bytes, ReplayAnswer, ReplaySettings, ReplayStatus, Stream, replay, scale};

use super::spread::{head, line, off_pct, pct};

const R96_OOM: &[u8] = include_bytes!("../../../fixtures/gemma3-4b-r96-limit-oom.gz");
pub const R104: &[u8] = include_bytes!("../../../fixtures/gemma3-4b-r104-limit.gz");
pub const R112: &[u8] = include_bytes!("../../../fixtures/gemma3-4b-r112-limit.gz");
pub const R112_TWO_STEPS: &[u8] = include_bytes!("../../../fixtures/gemma3-4b-r112-2steps.gz");
const R112_THREE_STEPS_OOM: &[u8] =
    include_bytes!("../../../fixtures/gemma3-4b-r112-3steps-limit-oom.gz");

/// 7.42 GiB, as the card was held to.
pub const LIMIT: f64 = 7598.08;

/// A stream's answer beside what was measured of the run.
pub struct Replayed {
    pub what: String,
    pub limited: bool,
    pub answer: ReplayAnswer,
    pub allocated_mib: f64,
    /// Not kept for the runs that streams are scaled to.
    pub reserved_mib: Option<f64>,
    /// A recorded stream ends where the run ended, so that only a scaled one is asked whether it fits.
    pub status: Option<ReplayStatus>,
}

impl Replayed {
    pub fn allocated_off_pct(&self) -> f64 {
        off_pct(self.answer.allocated_mib, self.allocated_mib)
    }
}

fn settings(limited: bool) -> ReplaySettings {
    ReplaySettings {
        limit: limited.then(|| Bytes::from_mib(LIMIT)),
        ..Default::default()
    }
}

fn read(bytes: &[u8]) -> Result<Stream, String> {
    Stream::read(bytes).map_err(|error| format!("read a recorded stream: {error}"))
}

pub fn recorded() -> Result<Vec<Replayed>, String> {
    let runs = [
        ("rank 96", R96_OOM, true, 6427.4, 7598.0),
        ("rank 104", R104, true, 6892.3, 7334.0),
        ("rank 112", R112, true, 6982.7, 7352.0),
        ("rank 112, two steps", R112_TWO_STEPS, false, 7031.9, 7530.0),
        (
            "rank 112, three steps",
            R112_THREE_STEPS_OOM,
            true,
            6982.7,
            7524.0,
        ),
    ];
    let replayed = runs.map(|(what, bytes, limited, allocated, reserved)| {
        Ok(Replayed {
            what: what.to_owned(),
            limited,
            answer: replay(&read(bytes)?, settings(limited)),
            allocated_mib: allocated,
            reserved_mib: Some(reserved),
            status: None,
        })
    });
    replayed.into_iter().collect()
}

pub fn scaled() -> Result<Vec<Replayed>, String> {
    use ReplayStatus::{Ok as Fits, Oom};
    let (a, b) = (read(R104)?, read(R112)?);
    let runs = [
        (80, true, 6374.0, Oom),
        (96, true, 6427.4, Oom),
        (104, true, 6892.3, Fits),
        (112, true, 6982.7, Fits),
        (128, true, 7189.4, Fits),
        (96, false, 6652.8, Fits),
        (192, false, 8175.8, Fits),
        (256, false, 9089.6, Fits),
    ];
    let replayed = runs.map(|(rank, limited, allocated, status)| {
        let stream = scale((&a, 104), (&b, 112), rank)
            .map_err(|error| format!("scale to rank {rank}: {error}"))?;
        Ok(Replayed {
            what: format!("rank {rank}"),
            limited,
            answer: replay(&stream, settings(limited)),
            allocated_mib: allocated,
            reserved_mib: None,
            status: Some(status),
        })
    });
    replayed.into_iter().collect()
}

pub fn section() -> Result<String, String> {
    let mut text = head(&[
        "run",
        "limit",
        "measured: allocated, reserved",
        "answered: allocated, reserved",
        "allocated off",
        "fits: measured, answered",
    ]);
    let kinds = [("recorded", recorded()?), ("scaled", scaled()?)];
    for (kind, runs) in kinds {
        for run in runs {
            let fits = |status| {
                if status == ReplayStatus::Ok {
                    "yes"
                } else {
                    "no"
                }
            };
            let reserved = run.reserved_mib.map(|mib| format!(", {mib:.1}"));
            let asked = run
                .status
                .map(|status| format!("{}, {}", fits(status), fits(run.answer.status)));
            text.push_str(&line(&[
                format!("{kind}, {}", run.what),
                if run.limited { "7.42 GiB" } else { "none" }.to_owned(),
                format!("{:.1}{}", run.allocated_mib, reserved.unwrap_or_default()),
                format!(
                    "{:.1}, {:.1}",
                    run.answer.allocated_mib, run.answer.reserved_mib
                ),
                pct(run.allocated_off_pct().abs()),
                asked.unwrap_or_default(),
            ]));
        }
    }
    Ok(text)
}
