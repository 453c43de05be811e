//! Need against room in whole bytes, as `vram::verdict` has it: fits is need + band <= room, too large is
//! need - band > room, anything else is uncertain. No floats, and no other rule.

use vram::{Bytes, VerdictKind};

use super::Sizing;

/// The two figures that decide. Of an unknown size nothing is too large and nothing fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub least: Bytes,
    pub most: Bytes,
    pub offloads: bool,
}

impl Size {
    const UNKNOWN: Self = Self {
        least: Bytes::ZERO,
        most: Bytes(u64::MAX),
        offloads: false,
    };

    pub fn of(sizing: Option<&Sizing>) -> Self {
        sizing.map_or(Self::UNKNOWN, |known| Self {
            least: known.need.saturating_sub(known.band),
            most: known.need + known.band,
            offloads: known.offloads,
        })
    }

    /// Room for either of two.
    pub fn either(self, other: Self) -> Self {
        Self {
            least: self.least.max(other.least),
            most: self.most.max(other.most),
            offloads: self.offloads || other.offloads,
        }
    }

    pub fn judge(self, spills: bool, room: Bytes) -> VerdictKind {
        if self.most <= room {
            VerdictKind::Fits
        } else if self.least <= room {
            VerdictKind::Uncertain
        } else if self.offloads {
            VerdictKind::Offloads
        } else if spills {
            VerdictKind::Spills
        } else {
            VerdictKind::TooLarge
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(need: u64, band: u64) -> Size {
        Size {
            least: Bytes(need - band),
            most: Bytes(need + band),
            offloads: false,
        }
    }

    #[test]
    fn the_band_decides_at_its_edges() {
        let judge = |need, room| size(need, 10).judge(false, Bytes(room));
        assert_eq!(judge(90, 100), VerdictKind::Fits);
        assert_eq!(judge(91, 100), VerdictKind::Uncertain);
        assert_eq!(judge(110, 100), VerdictKind::Uncertain);
        assert_eq!(judge(111, 100), VerdictKind::TooLarge);
        assert_eq!(size(111, 10).judge(true, Bytes(100)), VerdictKind::Spills);
        let bake = Size {
            offloads: true,
            ..size(111, 10)
        };
        assert_eq!(bake.judge(true, Bytes(100)), VerdictKind::Offloads);
        assert_eq!(bake.judge(false, Bytes(121)), VerdictKind::Fits);
        assert_eq!(
            Size::of(None).judge(false, Bytes(100)),
            VerdictKind::Uncertain
        );
    }
}
