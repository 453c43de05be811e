//! What the scheduler says: for each job of the snapshot exactly one of a placement, a ruling, or a reason to wait.
//! Only values; carrying them out, and checking them again at commit, is the engine's.

use jobs::Outcome;
use vram::{Bytes, Source, VerdictKind};

use super::{GroupId, JobKey, WaitReason};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// In the order in which they were decided.
    pub placements: Vec<Choice>,
    pub rulings: Vec<Ruling>,
    /// Comparisons that train for the first time, with the class of device chosen for all their arms.
    pub pins: Vec<(GroupId, String)>,
    pub waiting: Vec<(JobKey, WaitReason)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub job: JobKey,
    /// Index into the snapshot's hosts.
    pub host: usize,
    /// Indexes into that host's devices.
    pub devices: Vec<usize>,
    /// On each of the devices.
    pub grant: Bytes,
    pub verdict: VerdictKind,
    /// Peak allocated, which is what is measured; absent when nothing is known of the job's size.
    pub predicted: Option<Bytes>,
    pub source: Source,
    /// The sizing's `step_seconds`, in its unit: the snapshot does not say how many steps a job has.
    pub expected_seconds: Option<f64>,
}

/// A job that ends without an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub job: JobKey,
    /// `Infeasible` or `Skipped`.
    pub outcome: Outcome,
    pub reason: String,
}

/// One job on one device, as things stand before this round places anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Index into the snapshot's hosts.
    pub host: usize,
    /// Index into that host's devices.
    pub device: usize,
    /// With what is free now.
    pub verdict: VerdictKind,
    /// Absent when nothing is known of the job's size.
    pub need: Option<Bytes>,
    pub band: Option<Bytes>,
    pub source: Source,
    pub usable: Bytes,
    pub held: Bytes,
    pub reserved: Bytes,
    pub expected_seconds: Option<f64>,
    /// Why not there; absent: it could start there now.
    pub reason: Option<WaitReason>,
}
