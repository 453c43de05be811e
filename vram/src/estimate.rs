//! From a workload and a class of device to the memory it needs, term by term.

use serde::{Deserialize, Serialize};

use crate::knowledge::Peaks;
use crate::{Backend, Bytes, DeviceClass, Knowledge, Mode, Workload, closed_form};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Computed,
    Rehearsed,
    Learned,
    Measured,
    Declared,
}

/// What the whole estimate rests on, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Measured,
    Replayed,
    Learned,
    Computed,
    Declared,
    Unknown,
}

impl Source {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Replayed => "replayed",
            Self::Learned => "learned",
            Self::Computed => "computed",
            Self::Declared => "declared",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    pub name: String,
    pub bytes: Bytes,
    pub mark: Mark,
}

/// need = reserved + context; `band` is the half-width of what the source cannot tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The terms of `allocated`; they add up to it.
    pub terms: Vec<Term>,
    /// Peak allocated.
    pub allocated: Bytes,
    /// Peak reserved by the framework's allocator.
    pub reserved: Bytes,
    /// What the driver takes besides.
    pub context: Bytes,
    pub band: Bytes,
    pub source: Source,
}

impl Estimate {
    #[must_use]
    pub fn need(&self) -> Bytes {
        self.reserved + self.context
    }
}

/// Reserved over allocated: 5.5 % is the median of the cross-GPU probes without start-up residue (4.0 to 6.5 %).
const FRAGMENTATION: f64 = 0.055;
/// Half-widths as shares of reserved. A repeated measurement of one recipe differs by allocator noise (memory-model 1.6).
const BAND_MEASURED: f64 = 0.01;
/// Reserved was not recorded: fragmentation of 4.0 to 6.5 %.
const BAND_RESERVED_UNKNOWN: f64 = 0.015;
/// The closed form is within 0.8 % of allocated on the probes it was fitted to; fragmentation adds its 1.5 %.
const BAND_COMPUTED: f64 = 0.025;
/// Real runs: one family's runs of equal rank differ by up to 4.7 % with their corpus.
const BAND_COMPUTED_TRAIN: f64 = 0.04;
/// Real peaks are 0.85 to 0.95 of their probe's (memory-model 1.5); another program may do otherwise.
const BAND_PROBE: f64 = 0.10;
/// Nothing of a bake's peak has been measured for this model beyond the weights.
const BAND_BAKE: f64 = 0.15;

/// `None` when nothing at all is known of the workload's memory (a program without a model, never measured,
/// that declares nothing; a model without data).
#[must_use]
pub fn estimate(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let mut best = from_measured(workload, class, knowledge)
        .or_else(|| from_closed_form(workload, class))
        .or_else(|| from_declared(workload))
        .or_else(|| from_its_probe(workload, class, knowledge))?;
    if let Some(room) = knowledge.too_little(workload, class.backend) {
        raise_above(&mut best, room);
    }
    Some(best)
}

fn from_measured(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let here = knowledge.measured(workload, class);
    // A roomy card of the same backend tells allocated exactly; what it reserved is no requirement here.
    let (peaks, source) = match here {
        Some(peaks) => (peaks, Source::Measured),
        None => {
            let elsewhere = knowledge.measured_elsewhere(workload, class.backend)?;
            (
                Peaks {
                    reserved: Bytes::ZERO,
                    ..elsewhere
                },
                Source::Learned,
            )
        }
    };
    let mark = if source == Source::Measured {
        Mark::Measured
    } else {
        Mark::Learned
    };
    let known = peaks.reserved > Bytes::ZERO;
    let reserved = if known || class.backend == Backend::Cpu {
        peaks.reserved.max(peaks.allocated)
    } else {
        scale(peaks.allocated, 1.0 + FRAGMENTATION)
    };
    let share = if known {
        BAND_MEASURED
    } else {
        BAND_RESERVED_UNKNOWN
    };
    Some(Estimate {
        terms: vec![Term {
            name: "peak allocated".to_owned(),
            bytes: peaks.allocated,
            mark,
        }],
        allocated: peaks.allocated,
        reserved,
        context: context(class),
        band: scale(reserved, share),
        source,
    })
}

/// A probe of the same settings on the same class stands for the work itself where nothing better is known: that is
/// what a probe is for. Its optimizer state and the lifetime of its logits differ, hence the wide band.
fn from_its_probe(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    if workload.mode == Mode::Probe {
        return None;
    }
    let probe = Workload::new(Mode::Probe, &workload.settings, None).ok()?;
    let mut known = from_measured(&probe, class, knowledge)?;
    known.band = scale(known.reserved, BAND_PROBE);
    known.source = Source::Learned;
    Some(known)
}

fn from_closed_form(workload: &Workload, class: &DeviceClass) -> Option<Estimate> {
    let recipe = workload
        .recipe
        .as_ref()
        .filter(|recipe| closed_form::knows(recipe))?;
    let (terms, share) = match workload.mode {
        Mode::Bake => (closed_form::bake(recipe, workload.context_len?), BAND_BAKE),
        Mode::Probe => (
            closed_form::train_step(recipe, Mode::Probe, class.backend)?,
            BAND_COMPUTED,
        ),
        Mode::Train => (
            closed_form::train_step(recipe, Mode::Train, class.backend)?,
            BAND_COMPUTED_TRAIN,
        ),
    };
    let allocated: Bytes = terms.iter().map(|term| term.bytes).sum();
    let reserved = scale(allocated, 1.0 + FRAGMENTATION);
    Some(Estimate {
        terms,
        allocated,
        reserved,
        context: context(class),
        band: scale(reserved, share),
        source: Source::Computed,
    })
}

fn from_declared(workload: &Workload) -> Option<Estimate> {
    let declared = workload.declared?;
    Some(Estimate {
        terms: vec![Term {
            name: "declared".to_owned(),
            bytes: declared,
            mark: Mark::Declared,
        }],
        allocated: declared,
        reserved: declared,
        // The author's word is for everything the program takes.
        context: Bytes::ZERO,
        band: Bytes::ZERO,
        source: Source::Declared,
    })
}

/// It ran out of memory in `room`: so it needs more, whatever the model says.
fn raise_above(best: &mut Estimate, room: Bytes) {
    let band = scale(room, BAND_MEASURED);
    if best.need().saturating_sub(best.band) > room {
        return;
    }
    best.reserved = (room + band + Bytes(1)).saturating_sub(best.context);
    best.band = band;
    best.source = best.source.min(Source::Learned);
}

/// What the driver takes beside the framework's memory.
fn context(class: &DeviceClass) -> Bytes {
    Bytes::from_mib(match class.backend {
        // Total less free less reserved in both out-of-memory messages of v14: 233 to 234 MiB.
        Backend::Cuda => 233.5,
        // Not recorded on the RX 7900 XTX, which never filled up: taken as on NVIDIA.
        Backend::Rocm => 233.5,
        Backend::Cpu => 0.0,
    })
}

fn scale(bytes: Bytes, by: f64) -> Bytes {
    Bytes::from_mib(bytes.mib() * by)
}
