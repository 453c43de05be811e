//! The memory model: how much device memory a piece of work needs, and whether it fits a device.
//!
//! Pure: no clock, no files, no network, no randomness. The one way through is
//! `Workload` -> [`estimate`] -> [`verdict`], and [`Knowledge::learn`] for what was measured.

mod advise;
mod allocator;
mod architecture;
mod bake;
mod bytes;
mod card_kind;
mod cards;
mod changes;
mod config;
mod device;
mod estimate;
mod evaluate;
mod explain;
mod fields;
mod footprint;
mod generation;
mod hybrid;
mod knowledge;
mod label;
mod learn;
mod models;
mod observation;
mod offset;
mod pattern;
mod peak;
mod planning;
mod predict;
mod recipe;
mod recorded;
mod replay;
mod report;
mod row;
mod seeds;
mod setting;
mod step;
mod stream;
mod streams;
mod tape;
mod timeline;
mod verdict;
mod workload;

pub use advise::{Advice, RestsOn, Suggestion, Tried, advise, would_fit};
pub use allocator::{Allocator, AllocatorSettings, OutOfMemory};
pub use architecture::{Architecture, ArchitectureError, Family, LONGEST_CONFIG, Vision};
pub use bake::{Bake, CacheQuant, SERVING_SETTINGS, Serving, Split, kv_cache, recurrent_state};
pub use bytes::{Bytes, MIB};
pub use card_kind::{CardKind, Kernels};
pub use cards::{Basis, Card, CardError, known_card, known_cards};
pub use config::read_config;
pub use device::{Backend, DeviceClass, DeviceLoad};
pub use estimate::{Estimate, Mark, Source, Term, estimate};
pub use evaluate::{
    Brought, Errors, EvaluateError, EvaluatedRow, Evaluation, LearnFrom, Summary, VerdictCounts,
    evaluate, evaluate_with,
};
pub use explain::{Explanation, MOMENTS, Moment, StageMark, Wanted, explain};
pub use hybrid::{KeyValueShape, LinearAttention};
pub use knowledge::Knowledge;
pub use models::{known_model, known_model_config, known_models};
pub use observation::{Noted, Observation, Observed};
pub use peak::{LARGEST, Peak, PeakBlocks, PeakFailure, PeakRequest, peak};
pub use predict::{PredictedStage, PredictedTerm, Prediction, predict};
pub use recipe::{ALL_LINEAR, Attention, FURTHER_FIXES, MEMORY_FIXES, Optimizer, Quant, Recipe};
pub use recorded::{measured_seed, step_seconds};
pub use replay::{Alive, ReplayAnswer, ReplaySettings, ReplayStatus, replay};
pub use report::{Report, ReportGroup, ReportRow, report, scatter_svg};
pub use row::Row;
pub use seeds::{SeedRow, seed_history};
pub use stream::{Event, Stream, StreamError, scale};
pub use streams::{Made, Origin};
pub use timeline::timeline_svg;
pub use verdict::{Verdict, VerdictKind, verdict, verdict_of};
pub use workload::{Mode, RecipeError, Settings, Workload};
