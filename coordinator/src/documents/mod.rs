//! What people and scripts read, made from the state. Pure renderings: they decide nothing and change nothing.

mod advice;
mod attempt;
mod host;
mod plan;
mod rehearsals;
mod results;
mod sweep;
mod verdicts;
mod why;

pub use advice::{advised, explained};
pub use attempt::{from_life as attempt, from_record as attempt_record};
pub use host::host;
pub use plan::{Planned, plan};
pub use results::results;
pub use sweep::{head, summary, sweep};
pub use why::{Why, why};

/// A number of MiB with one decimal: what the measurements carry.
fn mib(bytes: vram::Bytes) -> f64 {
    (bytes.mib() * 10.0).round() / 10.0
}
