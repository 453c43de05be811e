//! What has been measured, found by what it was measured of. Order of learning does not matter: everything asked of
//! it is a maximum or a minimum. Refuses what a simulated device shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Backend, Bytes, DeviceClass, Mode, Settings, Workload, seeds};

/// How a measured piece of work ended, as far as memory is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    Ok,
    /// Ran out of memory: a bound from below.
    Oom,
    /// Paged to system memory: its allocated figures are exact, its fit is not.
    Spilled,
}

/// One measured peak with everything it depended on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    pub settings: Settings,
    pub mode: Mode,
    /// Name of the host it was measured on.
    pub host: String,
    pub class: DeviceClass,
    pub observed: Observed,
    /// Peak allocated; for a CPU the peak resident memory. For `Oom`: allocated when it failed, if known.
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    /// What the device could give at that moment.
    pub room: Bytes,
    pub source: String,
}

/// Everything learned. Grows by [`Knowledge::learn`] only.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    observations: Vec<Observation>,
    by_key: BTreeMap<String, Vec<usize>>,
}

/// The measured peaks of one workload on one class of device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peaks {
    pub allocated: Bytes,
    pub reserved: Bytes,
    pub count: usize,
}

impl Knowledge {
    /// What the project ships: the seed measurements.
    #[must_use]
    pub fn seeds() -> Self {
        let mut knowledge = Self::default();
        for observation in seeds::observations() {
            knowledge.learn(observation);
        }
        knowledge
    }

    /// Refuses what a simulation says: returns whether it was taken.
    pub fn learn(&mut self, observation: Observation) -> bool {
        if observation.class.simulated {
            return false;
        }
        let Ok(workload) = Workload::new(observation.mode, &observation.settings, None) else {
            return false;
        };
        let at = self.observations.len();
        self.observations.push(observation);
        self.by_key.entry(workload.key).or_default().push(at);
        true
    }

    fn of(&self, workload: &Workload) -> impl Iterator<Item = &Observation> {
        let found = self.by_key.get(&workload.key);
        found
            .into_iter()
            .flatten()
            .filter_map(|at| self.observations.get(*at))
    }

    /// The largest peaks measured of this workload on this class of device.
    pub(crate) fn measured(&self, workload: &Workload, class: &DeviceClass) -> Option<Peaks> {
        self.peaks(workload, |seen| same_class(&seen.class, class))
    }

    /// The same on other classes of the same backend: allocations depend on shapes and kernels, not on the card.
    pub(crate) fn measured_elsewhere(
        &self,
        workload: &Workload,
        backend: Backend,
    ) -> Option<Peaks> {
        self.peaks(workload, |seen| seen.class.backend == backend)
    }

    fn peaks(&self, workload: &Workload, wanted: impl Fn(&Observation) -> bool) -> Option<Peaks> {
        let mut peaks = Peaks::default();
        for seen in self.of(workload).filter(|seen| wanted(seen)) {
            let (Observed::Ok | Observed::Spilled, Some(allocated)) =
                (seen.observed, seen.allocated)
            else {
                continue;
            };
            peaks.allocated = peaks.allocated.max(allocated);
            peaks.reserved = peaks.reserved.max(seen.reserved.unwrap_or_default());
            peaks.count += 1;
        }
        (peaks.count > 0).then_some(peaks)
    }

    /// The most room in which this workload has run out of memory on a card of this backend, where it never ran
    /// to its end in as little.
    pub(crate) fn too_little(&self, workload: &Workload, backend: Backend) -> Option<Bytes> {
        let here = |seen: &&Observation| seen.class.backend == backend;
        let failed = self
            .of(workload)
            .filter(here)
            .filter(|seen| seen.observed == Observed::Oom);
        let worst = failed.map(|seen| seen.room).max()?;
        let mut fitted = self
            .of(workload)
            .filter(here)
            .filter(|seen| seen.observed == Observed::Ok);
        (!fitted.any(|seen| seen.room <= worst)).then_some(worst)
    }
}

/// A simulated card stands for the real one of its name.
pub(crate) fn same_class(one: &DeviceClass, other: &DeviceClass) -> bool {
    one.name == other.name && one.backend == other.backend && one.os == other.os
}
