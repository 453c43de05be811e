//! The life of a sweep after its submission: which attempts its jobs have had, and what follows from them.
//!
//! [`Sweep::apply`] is the only way to change it. The state of a job is computed from its attempts, rulings and
//! marks, never stored beside them, so the two cannot disagree. Knows no clock: events carry their time.

mod apply;
mod event;
mod record;
mod state;
#[cfg(test)]
mod tests;

pub use event::{Applied, Event, Mark, MarkKind, Refused, Scope};
pub use record::{Attempt, AttemptState, Job, Placement, Ruling, Sweep};
pub use state::{JobState, SweepState, Tally};
