//! From a workload and a class of device to the memory it needs, term by term.

use serde::{Deserialize, Serialize};

use crate::{Bytes, DeviceClass, Knowledge, Workload};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Computed,
    Rehearsed,
    Learned,
    Measured,
    Declared,
}

/// What the whole estimate rests on, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Measured,
    Replayed,
    Learned,
    Computed,
    Declared,
    Unknown,
}

impl Source {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Replayed => "replayed",
            Self::Learned => "learned",
            Self::Computed => "computed",
            Self::Declared => "declared",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    pub name: String,
    pub bytes: Bytes,
    pub mark: Mark,
}

/// need = reserved + context; `band` is the half-width of what the source cannot tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The terms of `allocated`; they add up to it.
    pub terms: Vec<Term>,
    /// Peak allocated.
    pub allocated: Bytes,
    /// Peak reserved by the framework's allocator.
    pub reserved: Bytes,
    /// What the driver takes besides.
    pub context: Bytes,
    pub band: Bytes,
    pub source: Source,
}

impl Estimate {
    #[must_use]
    pub fn need(&self) -> Bytes {
        self.reserved + self.context
    }
}

/// `None` when nothing at all is known of the workload's memory (a program without a model, never measured,
/// that declares nothing).
#[must_use]
pub fn estimate(
    _workload: &Workload,
    _class: &DeviceClass,
    _knowledge: &Knowledge,
) -> Option<Estimate> {
    None
}
