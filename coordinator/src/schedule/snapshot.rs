//! What the scheduler is told: hosts, devices, jobs that could start now, sizes, comparison groups. Plain values that
//! borrow their names, so that a snapshot of 10,000 jobs copies nothing. Holds no rules.

use std::collections::BTreeSet;

use jobs::spec::{DeviceKind, ProbeMode};
use vram::{Bytes, DeviceLoad, Source};

/// A job by numbers: `sweep` is the record's number, so that keys order by submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobKey {
    pub sweep: u64,
    pub trial: u32,
    pub kind: jobs::Kind,
}

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
        impl $name {
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(
    /// One workload whose memory is asked for: a row of [`Snapshot::estimates`].
    NeedId,
    /// One class of device as the memory model sees it: a column of [`Snapshot::estimates`].
    ClassId,
    /// One comparison: an index into [`Snapshot::groups`].
    GroupId
);

#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// Every known host, also silent ones.
    pub hosts: Vec<HostView<'a>>,
    /// Jobs that could start now (what they follow is done), in any order.
    pub jobs: Vec<JobView<'a>>,
    /// By need, then by class; `None`: nothing is known.
    pub estimates: &'a [Vec<Option<Sizing>>],
    pub groups: Vec<GroupView<'a>>,
    /// False while hosts may still be about to register: nothing is ruled infeasible yet.
    pub fleet_settled: bool,
}

/// One need on one class of device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizing {
    /// Reserved peak and context.
    pub need: Bytes,
    /// Half-width of what the source cannot tell.
    pub band: Bytes,
    pub allocated: Bytes,
    pub source: Source,
    pub step_seconds: Option<f64>,
    /// What does not fit would run partly on the CPU.
    pub offloads: bool,
}

#[derive(Clone, Debug)]
pub struct HostView<'a> {
    pub name: &'a str,
    pub generation: u64,
    /// Its agent is heard of.
    pub up: bool,
    pub drained: bool,
    pub labels: &'a BTreeSet<String>,
    /// Its agent is finding out what its Python has: the labels `package:NAME` say what it may have.
    pub packages_unknown: bool,
    /// Its class as people name it; comparisons go by the device's `class_name`.
    pub class: &'a str,
    pub devices: Vec<DeviceView<'a>>,
}

#[derive(Clone, Debug)]
pub struct DeviceView<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub kind: DeviceKind,
    pub class: ClassId,
    /// What the arms of a comparison must share: name/backend/os.
    pub class_name: &'a str,
    /// Pages to system memory instead of failing.
    pub spills: bool,
    pub load: DeviceLoad,
    /// Granted to active attempts.
    pub reserved: Bytes,
    /// Active attempts.
    pub active: u32,
    /// Attempts at a time.
    pub slots: u32,
    /// Why it gets no work.
    pub quarantine: Option<&'a str>,
    /// Why it is not there now.
    pub missing: Option<&'a str>,
    /// Why its owner keeps it from new attempts now.
    pub owner: Option<&'a str>,
    /// Who holds what others hold, for people; empty: not known.
    pub holders: &'a str,
    /// Steps per second relative to the others; 0 when not known.
    pub speed: f64,
    pub busy_until_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct JobView<'a> {
    pub key: JobKey,
    /// Higher goes first.
    pub priority: i32,
    pub need: NeedId,
    /// Of the job that a probe is for.
    pub next_need: Option<NeedId>,
    /// Only of probe jobs.
    pub probe: Option<ProbeMode>,
    /// A program that declares nothing: takes a device whole while its size is unknown.
    pub whole_device: bool,
    /// Labels that a host must have.
    pub require: &'a [String],
    /// Absent: any.
    pub device: Option<DeviceKind>,
    /// 0 counts as 1.
    pub gpus: u32,
    /// Pinned by the sweep file.
    pub host: Option<&'a str>,
    /// Its earlier work lies on this host: it must go there.
    pub stay: Option<&'a str>,
    /// Its checkpoint lies there: preferred where that is not much slower.
    pub prefer: Option<&'a str>,
    /// (host, device id) where this job ran out of memory.
    pub avoid: &'a [(String, String)],
    pub group: Option<GroupId>,
    /// Not before (retry backoff).
    pub after_ms: u64,
    /// A rehearsal that would tell its size is on its way: until then it goes only where it fits anyhow, and nothing
    /// is ruled of it.
    pub rehearsal: Option<Rehearsal<'a>>,
}

/// How far the rehearsal is that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rehearsal<'a> {
    /// No host has room for it yet.
    Queued,
    /// This host is finding out whether it can rehearse at all.
    Looking(&'a str),
    Running(&'a str),
}

/// The arms of one comparison: they train on one class of device.
#[derive(Clone, Debug)]
pub struct GroupView<'a> {
    /// The class name chosen at the first training placement.
    pub pinned: Option<&'a str>,
    pub arms: Vec<Arm>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    /// Of its train job.
    pub need: NeedId,
    /// Cannot or need not run any more.
    pub settled: bool,
}
