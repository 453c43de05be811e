//! The pure scheduler: a [`Snapshot`] goes in, a [`Decision`] comes out, and the same snapshot gives the same decision.
//! Reads no clock, writes nothing, keeps nothing between two calls.
//!
//! `snapshot` -> `fleet`, `site`, `queue` (what is asked) -> `size`, `filter` (may it), `compare` (on which class),
//! `outlook` (may it ever), `rank`, `seat` (which device) -> `decide`, `explain`.

mod compare;
mod decide;
mod decision;
mod explain;
mod filter;
mod fleet;
mod outlook;
mod queue;
mod rank;
mod reason;
pub mod rehearse;
mod seat;
mod site;
mod size;
mod snapshot;

pub use decide::decide;
pub use decision::{Choice, Decision, Explained, Ruling};
pub use explain::explain;
pub use reason::WaitReason;
pub use snapshot::{
    Arm, ClassId, DeviceView, GroupId, GroupView, HostView, JobKey, JobView, NeedId, Rehearsal,
    Sizing, Snapshot,
};
