//! One measured peak with everything it depended on, and what it says of a card that was full. Refuses nothing: what is
//! learned from it is the knowledge's business.

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
    /// What the framework or the program said besides.
    #[serde(default)]
    pub noted: Noted,
}

/// Numbers of an out-of-memory text, and the context where a probe measured it. Absent is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// What the failing allocation asked for.
    #[serde(default)]
    pub wanted: Option<Bytes>,
    /// What the driver still had then.
    #[serde(default)]
    pub free: Option<Bytes>,
    /// total - free - reserved of an otherwise empty card.
    #[serde(default)]
    pub context: Option<Bytes>,
}

impl Observation {
    /// Room of a card that was full: what the framework had reserved, what was still free, and the context. That is
    /// exact where the text says it; what was believed to be free at the start is not.
    pub(crate) fn full_at(&self, context: Bytes) -> Bytes {
        match (self.reserved, self.noted.free) {
            (Some(reserved), Some(free)) if self.observed == Observed::Oom => {
                let said = reserved + free + context;
                let apart = said.0.abs_diff(self.room.0);
                if apart <= ROUNDED.0 { self.room } else { said }
            }
            _ => self.room,
        }
    }

    /// Reserved over allocated, where the card was (nearly) full: with room to spare the allocator keeps what it likes.
    pub(crate) fn fragmentation(&self) -> Option<f64> {
        let (allocated, reserved) = (self.allocated?.mib(), self.reserved?.mib());
        let full = match self.observed {
            Observed::Oom => true,
            Observed::Ok => reserved > NEARLY_FULL * self.room.mib(),
            Observed::Spilled => false,
        };
        (full && allocated > 0.0 && reserved >= allocated).then(|| reserved / allocated - 1.0)
    }
}

const NEARLY_FULL: f64 = 0.9;
/// Such texts give GiB with two decimals, each off by up to 5 MiB.
const ROUNDED: Bytes = Bytes(11 << 20);
