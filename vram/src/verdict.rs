//! Need against room: may it start there?

use serde::{Deserialize, Serialize};

use crate::{Bytes, DeviceClass, DeviceLoad, Estimate, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    Fits,
    /// Measure first: the band straddles the room, or nothing is known.
    Uncertain,
    TooLarge,
    /// Too large for the card, and the platform would page to system memory instead of failing.
    Spills,
    /// A bake that is too large for its cards: its loader would leave layers to the CPU, several times slower (F22).
    Offloads,
}

impl VerdictKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Uncertain => "uncertain",
            Self::TooLarge => "too_large",
            Self::Spills => "spills",
            Self::Offloads => "offloads",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub kind: VerdictKind,
    /// Absent when nothing is known.
    pub estimate: Option<Estimate>,
    pub usable: Bytes,
    pub held: Bytes,
}

/// Fits: need + band <= room. Too large (or spills): need - band > room. Else uncertain. See [`verdict_of`] for bakes.
#[must_use]
pub fn verdict(estimate: Option<Estimate>, class: &DeviceClass, load: &DeviceLoad) -> Verdict {
    let kind = match &estimate {
        None => VerdictKind::Uncertain,
        Some(known) if known.need() + known.band <= load.room() => VerdictKind::Fits,
        Some(known) if known.need().saturating_sub(known.band) > load.room() => {
            if class.spills {
                VerdictKind::Spills
            } else {
                VerdictKind::TooLarge
            }
        }
        Some(_) => VerdictKind::Uncertain,
    };
    Verdict {
        kind,
        estimate,
        usable: load.usable,
        held: load.held,
    }
}

/// The verdict on this piece of work, which knows what becomes of it where it is too large.
#[must_use]
pub fn verdict_of(
    workload: &Workload,
    estimate: Option<Estimate>,
    class: &DeviceClass,
    load: &DeviceLoad,
) -> Verdict {
    let mut answer = verdict(estimate, class, load);
    let is_too_large = answer.kind > VerdictKind::Uncertain;
    if is_too_large && workload.offloads(class) {
        answer.kind = VerdictKind::Offloads;
    }
    answer
}
