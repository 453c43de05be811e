//! A device as the memory model sees it: what class of card it is, and how full it is now.
//! Knows nothing of hosts, attempts or reservations.

use serde::{Deserialize, Serialize};

use crate::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    Cuda,
    Rocm,
    Cpu,
}

/// Cards of one class behave alike: what was measured on one holds for the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceClass {
    /// As its driver names it: `NVIDIA GeForce RTX 3070 Ti`. For a CPU: the host's name.
    pub name: String,
    pub backend: Backend,
    /// `linux` or `windows`: the same card has another memory behaviour under each.
    pub os: String,
    /// Pages to system memory instead of failing (Windows display drivers).
    pub spills: bool,
    /// What a simulated card shows is never learned from.
    pub simulated: bool,
}

/// The live state of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceLoad {
    /// What one process can use of the empty card: framework's total, context included.
    pub usable: Bytes,
    /// Held by processes that are not ours.
    pub held: Bytes,
}

impl DeviceLoad {
    /// What is free for us, before our own reservations.
    #[must_use]
    pub fn room(&self) -> Bytes {
        self.usable.saturating_sub(self.held)
    }
}
