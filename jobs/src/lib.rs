//! What a sweep is and how it lives: the sweep file, its expansion into trials and jobs, and the state machine of
//! attempts. Pure: no clock, no files, no network, no randomness but the sweep's own seed.

mod id;
mod kind;
pub mod life;
mod outcome;
pub mod plan;
pub mod spec;
pub mod staged;

pub use id::{AttemptId, BadId, JobId, SweepId, TrialId, is_host_name, is_name_char};
pub use kind::{Kind, UnknownKind};
pub use outcome::{AttemptOutcome, Ending, Outcome, Peaks, UnknownOutcome};
pub use plan::{Plan, Trial};
pub use spec::{Params, Spec};
