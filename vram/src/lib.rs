//! The memory model: how much device memory a piece of work needs, and whether it fits a device.
//!
//! Pure: no clock, no files, no network, no randomness. The one way through is
//! `Workload` -> [`estimate`] -> [`verdict`], and [`Knowledge::learn`] for what was measured.

mod bytes;
mod closed_form;
mod device;
mod estimate;
mod knowledge;
mod recipe;
mod recorded;
mod seeds;
mod setting;
mod suggest;
mod verdict;
mod workload;

pub use bytes::{Bytes, MIB};
pub use device::{Backend, DeviceClass, DeviceLoad};
pub use estimate::{Estimate, Mark, Source, Term, estimate};
pub use knowledge::{Knowledge, Observation, Observed};
pub use recipe::{ALL_LINEAR, MEMORY_FIXES, Optimizer, Quant, Recipe};
pub use recorded::{measured_seed, step_seconds};
pub use seeds::SeedRow;
pub use suggest::{Suggestion, would_fit};
pub use verdict::{Verdict, VerdictKind, verdict};
pub use workload::{Mode, RecipeError, Settings, Workload};
