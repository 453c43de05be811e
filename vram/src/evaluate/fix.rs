//! What is made of a replayed size by what was measured elsewhere, there and back. Learns nothing.

use crate::knowledge::features;
use crate::learn::Correction;
use crate::step::Plan;

/// What measurements make of a replayed size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fix {
    None,
    /// Of a stream from the shapes: a share of it.
    Share(f64),
    /// Of a stream of the program's code: a number of MiB.
    Offset(f64),
}

impl Fix {
    pub(super) fn of(correction: &Correction, plan: &Plan) -> Self {
        match correction.count {
            0 => Self::None,
            _ => Self::Share(correction.at(&features(plan)).0),
        }
    }

    pub(super) fn forth(self, replayed: f64) -> f64 {
        match self {
            Self::None => replayed,
            Self::Share(share) => replayed * (1.0 + share),
            Self::Offset(mib) => (replayed + mib).max(0.0),
        }
    }

    /// The limit under which the stream is to be replayed.
    pub(super) fn back(self, limit: f64) -> f64 {
        match self {
            Self::None => limit,
            Self::Share(share) => limit / (1.0 + share),
            Self::Offset(mib) => (limit - mib).max(0.0),
        }
    }
}
