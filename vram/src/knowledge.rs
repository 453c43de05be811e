//! What has been measured, and what follows from it. Order of learning does not matter.

use serde::{Deserialize, Serialize};

use crate::{Bytes, DeviceClass, Mode, Settings};

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
}

impl Knowledge {
    /// What the project ships: the seed measurements.
    #[must_use]
    pub fn seeds() -> Self {
        Self::default()
    }

    /// Refuses what a simulation says: returns whether it was taken.
    pub fn learn(&mut self, observation: Observation) -> bool {
        if observation.class.simulated {
            return false;
        }
        self.observations.push(observation);
        true
    }
}
