//! From a workload and a class of device to the memory it needs, term by term.

use serde::{Deserialize, Serialize};

use crate::bake::Bake;
use crate::footprint::{Stage, footprint_of};
use crate::knowledge::{Peaks, Whose, features};
use crate::offset::Offset;
use crate::recipe::{Quant, Recipe};
use crate::streams::{BAND_INT8, Origin};
use crate::tape::Part;
use crate::{Backend, Bytes, DeviceClass, Knowledge, Mode, Workload, planning};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Computed,
    Rehearsed,
    Learned,
    Measured,
    Declared,
    /// Nothing says how much it is.
    Unknown,
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
/// Reserved was not recorded: the jitter of one measurement (0.3 %) and of fragmentation (1 %).
const BAND_RESERVED_UNKNOWN: f64 = 0.0105;
/// The closed form alone, as a share: on the 73 runs of data/h200.jsonl that ended, and the 57 of data/t4.jsonl, it is
/// off by at most this once blocks are counted, DoRA aside.
const BAND_COMPUTED: f64 = 0.02;
/// Rounding to blocks, which the closed form does not know: 0 to 2.0 % on the same runs, 0.5 % on average.
const BLOCKS: f64 = 0.005;
/// Standard deviations that a band spans.
const DEVIATIONS: f64 = 2.0;
/// Of reserved over allocated between runs of one recipe: 50 MiB to both sides (memory-model 4.1), as a share.
const BAND_FRAGMENTATION: f64 = 0.01;
const FRAGMENTATION_EXPANDABLE: f64 = 0.05;
/// Real peaks are 0.85 to 0.95 of their probe's (memory-model 1.5); another program may do otherwise.
const BAND_PROBE: f64 = 0.10;
/// A correction beyond what a measurement of the family may be off by is drawn out of reach of what was measured:
/// then the shapes are believed, with a band as wide as that.
const REACH: f64 = 0.10;
/// Nothing of a bake's peak has been measured for this model beyond the weights.
const BAND_BAKE: f64 = 0.15;
/// Of a GGUF the file is known; the rest is within this of what was measured (vram/tests/bake).
const BAND_GGUF: f64 = 0.10;

/// `None` when nothing at all is known of the workload's memory (a program without a model, never measured,
/// that declares nothing; a model without data).
#[must_use]
pub fn estimate(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let mut best = from_measured(workload, class, knowledge, Whose::Own)
        .or_else(|| from_stream(workload, class, knowledge))
        .or_else(|| from_shipped(workload, class, knowledge))
        .or_else(|| from_closed_form(workload, class, knowledge))
        .or_else(|| from_declared(workload))
        .or_else(|| from_its_probe(workload, class, knowledge))?;
    let context = context(class, knowledge);
    if let Some(room) = knowledge.too_little(workload, class.backend, context) {
        raise_above(&mut best, room);
    }
    Some(best)
}

/// Shipped measurements are of another program. Its step may be leaner than the one that is to run, which for all that
/// is known takes what the shapes say: the band reaches that far.
fn from_shipped(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let mut shipped = from_measured(workload, class, knowledge, Whose::Any)?;
    if workload.mode == Mode::Train
        && let Some(shapes) = from_closed_form(workload, class, &Knowledge::default())
    {
        let beyond = shapes.reserved.0.saturating_sub(shipped.reserved.0);
        shipped.band = shipped.band.max(Bytes(beyond));
    }
    Some(shipped)
}

fn from_measured(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
    whose: Whose,
) -> Option<Estimate> {
    let here = knowledge.measured(workload, class, whose);
    // A roomy card of the same backend tells allocated exactly; what it reserved is no requirement here.
    let (peaks, source) = match here {
        Some(peaks) => (peaks, Source::Measured),
        None => {
            let elsewhere = knowledge.measured_elsewhere(workload, class.backend, whose)?;
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
    let prior = workload
        .recipe
        .as_ref()
        .map_or(FRAGMENTATION, fragmentation);
    // Another measurement may be larger, but does not make the band wider: it is a share of the smallest one, with no
    // more fragmentation than is taken before any was seen.
    let (reserved, least) = if known || class.backend == Backend::Cpu {
        (peaks.reserved.max(peaks.allocated), peaks.least)
    } else {
        let share = knowledge.fragmentation(class, prior);
        let least = peaks.least.min(peaks.allocated);
        (
            scale(peaks.allocated, 1.0 + share),
            scale(least, 1.0 + prior),
        )
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
        context: context(class, knowledge),
        band: scale(least, share),
        source,
    })
}

/// A recorded or rehearsed stream, its own or scaled from two other ranks, through the allocator's model.
fn from_stream(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let recipe = workload.recipe.as_ref()?;
    let workspace = planning::workspace(class);
    let need = knowledge
        .streams()
        .need(workload, workspace, recipe.expandable_segments)?;
    let name = match (need.origin, need.scaled) {
        (Origin::Shapes, _) => "peak of the shapes' stream",
        (Origin::Recorded, false) => "peak of the recorded stream",
        (Origin::Recorded, true) => "peak of the recorded streams, scaled",
        (Origin::Rehearsed, false) => "peak of the rehearsed stream",
        (Origin::Rehearsed, true) => "peak of the rehearsed streams, scaled",
    };
    let offset = knowledge.offset(workload, class);
    let beyond = |bytes: Bytes| match offset {
        Some(offset) => Bytes::from_mib((bytes.mib() + offset.mib).max(0.0)),
        None => bytes,
    };
    let (allocated, reserved) = (beyond(need.allocated), beyond(need.least));
    let (name, mark, band) = match offset {
        Some(offset) => (
            format!("{name}, corrected by {} measured", offset.count),
            Mark::Learned,
            Offset::widened(need.band),
        ),
        None => (name.to_owned(), Mark::Rehearsed, need.band),
    };
    Some(Estimate {
        terms: vec![Term {
            name,
            bytes: allocated,
            mark,
        }],
        allocated,
        reserved,
        context: context(class, knowledge),
        band: scale(reserved, band),
        source: Source::Replayed,
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
    let mut known = from_measured(&probe, class, knowledge, Whose::Any)?;
    known.band = scale(known.reserved, BAND_PROBE);
    known.source = Source::Learned;
    Some(known)
}

fn from_closed_form(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Estimate> {
    let recipe = workload.recipe.as_ref()?;
    if workload.mode == Mode::Bake {
        return from_bake(workload, context(class, knowledge));
    }
    let plan = planning::plan(recipe, workload.mode, class)?;
    if !planning::is_reasonable(&plan) {
        return Some(beyond_any_machine());
    }
    let footprint = footprint_of(&plan);
    let peak = footprint.peak()?;
    let correction = knowledge.correction(&plan, class.backend, workload.mode);
    let learned = correction.filter(|correction| correction.count > 0);
    let (share, deviation, source) = match learned {
        Some(correction) => {
            let (share, deviation) = correction.at(&features(&plan));
            if share.abs() > REACH {
                (BLOCKS, REACH, Source::Computed)
            } else {
                (share, deviation * DEVIATIONS, Source::Learned)
            }
        }
        None if recipe.quant == Quant::Int8 => (BLOCKS, BAND_INT8, Source::Computed),
        None => (BLOCKS, BAND_COMPUTED, Source::Computed),
    };
    let terms = corrected(peak, share, source);
    let allocated: Bytes = terms.iter().map(|term| term.bytes).sum();
    let reserved = scale(
        allocated,
        1.0 + knowledge.fragmentation(class, fragmentation(recipe)),
    );
    let band = (deviation.powi(2) + BAND_FRAGMENTATION.powi(2)).sqrt();
    Some(Estimate {
        terms,
        allocated,
        reserved,
        context: context(class, knowledge),
        band: scale(reserved, band),
        source,
    })
}

/// Sizes whose products would leave 64 bits: more than any machine has, whatever it is exactly.
fn beyond_any_machine() -> Estimate {
    let bytes = Bytes(1 << 50);
    Estimate {
        terms: vec![Term {
            name: "beyond any machine".to_owned(),
            bytes,
            mark: Mark::Computed,
        }],
        allocated: bytes,
        reserved: bytes,
        context: Bytes::ZERO,
        band: Bytes::ZERO,
        source: Source::Computed,
    }
}

/// Expandable segments waste a third of what fixed ones do (memory-model 1.7).
fn fragmentation(recipe: &Recipe) -> f64 {
    if recipe.expandable_segments {
        FRAGMENTATION_EXPANDABLE
    } else {
        FRAGMENTATION
    }
}

/// The stage's parts; what was learned goes to those that live and die within a step.
fn corrected(stage: &Stage, share: f64, source: Source) -> Vec<Term> {
    let stays = |part: Part| {
        use Part::{Adapters, Gradients, OptimizerState, UnquantisedWeights, Weights};
        matches!(
            part,
            Weights | UnquantisedWeights | Adapters | Gradients | OptimizerState
        )
    };
    let total = stage.total() as f64;
    let moving: f64 = stage
        .parts
        .iter()
        .filter(|(part, _)| !stays(**part))
        .map(|(_, bytes)| *bytes as f64)
        .sum();
    let factor = if moving > 0.0 {
        ((moving + share * total) / moving).max(0.0)
    } else {
        1.0
    };
    let terms = stage.parts.iter().map(|(part, bytes)| {
        let (bytes, mark) = match (stays(*part), source) {
            (true, _) => (*bytes, Mark::Computed),
            (false, Source::Learned) => ((*bytes as f64 * factor).round() as u64, Mark::Learned),
            (false, _) => ((*bytes as f64 * factor).round() as u64, Mark::Computed),
        };
        Term {
            name: part.name().to_owned(),
            bytes: Bytes(bytes),
            mark,
        }
    });
    terms.collect()
}

/// On each of its cards, as much as on the fullest.
fn from_bake(workload: &Workload, context: Bytes) -> Option<Estimate> {
    let terms = Bake::of(workload)?.fullest();
    let allocated: Bytes = terms.iter().map(|term| term.bytes).sum();
    let band = match workload.serving.gguf {
        Some(_) => BAND_GGUF,
        None => BAND_BAKE,
    };
    Some(Estimate {
        terms,
        allocated,
        reserved: allocated,
        context,
        band: scale(allocated, band),
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
    if best.need().saturating_sub(best.band) > room {
        return;
    }
    // What was measured keeps its band, whatever else is seen.
    if best.source != Source::Measured {
        best.band = scale(room, BAND_MEASURED).min(best.band);
    }
    best.reserved = (room + best.band + Bytes(1)).saturating_sub(best.context);
    best.source = best.source.min(Source::Learned);
}

/// What the driver takes beside the framework's memory: as measured on this class of device, else as the seeds show.
fn context(class: &DeviceClass, knowledge: &Knowledge) -> Bytes {
    if let Some(measured) = knowledge.context(class) {
        return measured;
    }
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
