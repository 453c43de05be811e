//! The pure scheduler: a [`Snapshot`] goes in, a [`Decision`] comes out, and the same snapshot gives the same decision.
//! Reads no clock, writes nothing, keeps nothing between two calls.

mod decision;
mod reason;
mod snapshot;

pub use decision::{Choice, Decision, Explained, Ruling};
pub use reason::WaitReason;
pub use snapshot::{
    Arm, ClassId, DeviceView, GroupId, GroupView, HostView, JobKey, JobView, NeedId, Sizing,
    Snapshot,
};

/// Nothing is decided yet.
#[must_use]
pub fn decide(_snapshot: &Snapshot<'_>, _now_ms: u64) -> Decision {
    Decision::default()
}

#[must_use]
pub fn explain(_snapshot: &Snapshot<'_>, _job: JobKey) -> Vec<Explained> {
    Vec::new()
}
