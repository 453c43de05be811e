//! The memory model: how much device memory a piece of work needs, and whether it fits a device.
//!
//! Pure: no clock, no files, no network, no randomness. The one way through is
//! `Workload` -> [`estimate`] -> [`verdict`], and [`Knowledge::learn`] for what was measured.

mod bytes;
mod device;
mod estimate;
mod knowledge;
mod verdict;
mod workload;

pub use bytes::{Bytes, MIB};
pub use device::{Backend, DeviceClass, DeviceLoad};
pub use estimate::{Estimate, Mark, Source, Term, estimate};
pub use knowledge::{Knowledge, Observation, Observed};
pub use verdict::{Verdict, VerdictKind, verdict};
pub use workload::{Mode, RecipeError, Settings, Workload};
