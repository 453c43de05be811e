//! What would make trials fit where they do not: which questions are worth asking of the memory model is decided from a
//! snapshot (`select`), and asked beside the engine's thread (`answer`), as each takes up to seconds. The search itself is
//! `vram::advise`'s; nothing here knows a recipe's settings.

mod answer;
mod select;

use vram::{Bytes, DeviceClass, DeviceLoad, VerdictKind, Workload};

pub use answer::{Answered, Found, answer, find, would_fit};
pub use select::{Question, Wanted, select};

/// One device as it was when the verdicts were given.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub host: String,
    /// As its host names it.
    pub name: String,
    pub class: DeviceClass,
    pub load: DeviceLoad,
}

/// The verdict on one trial on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Its place in [`Snapshot::devices`].
    pub device: usize,
    pub kind: VerdictKind,
    /// What it needs at least; nothing where nothing is known.
    pub least: Bytes,
}

impl Seen {
    pub fn fits(&self) -> bool {
        self.kind == VerdictKind::Fits
    }
}

#[derive(Clone, Debug)]
pub struct Trial {
    pub index: u32,
    pub workload: Workload,
    /// On each device that it may have at all.
    pub seen: Vec<Seen>,
}

impl Trial {
    /// No device is left that might hold it as it is.
    pub fn is_too_large_everywhere(&self) -> bool {
        let too_large = |seen: &Seen| seen.kind > VerdictKind::Uncertain;
        !self.seen.is_empty() && self.seen.iter().all(too_large)
    }
}

/// Everything that the questions follow from. Trials that fit everywhere may be left out.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub devices: Vec<Device>,
    /// By index.
    pub trials: Vec<Trial>,
}

impl Snapshot {
    pub fn is_too_large_everywhere(&self, index: u32) -> bool {
        let found = self
            .trials
            .binary_search_by_key(&index, |trial| trial.index);
        found.is_ok_and(|at| self.trials[at].is_too_large_everywhere())
    }

    /// On this device a trial ran out of memory: it does not hold it, whatever the model says, nor do others of its class.
    pub fn note_failure(&mut self, device: usize) {
        let class = &self.devices[device].class;
        let seen = self.trials.iter_mut().flat_map(|one| &mut one.seen);
        for one in seen.filter(|one| self.devices[one.device].class == *class && one.fits()) {
            one.kind = VerdictKind::Uncertain;
        }
    }
}
