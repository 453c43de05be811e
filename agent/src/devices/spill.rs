//! Whether a card spills under an attempt: its memory is full, and more of it lies in the system's than before. Pure.
//!
//! Pinned buffers of a program lie in the same figure, so growth alone is none: a card with room spills nothing. Only
//! cards whose driver pages at all (`spills` in the host's file) are looked at.

use super::Live;

/// What is told of a spill begins so; an attempt that was told ends `spilled`.
pub const MARK: &str = "spilled: ";

/// Desktops and drivers move that much to and fro.
const GROWTH: u64 = 512 << 20;
/// A driver begins to page before the last of it is taken.
const FULL: u64 = 512 << 20;

/// What is remembered of one card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spilling {
    /// In the system's memory, when no attempt of ours was there.
    before: Option<u64>,
    said: bool,
}

impl Spilling {
    /// One look; a sentence the first time that an attempt is seen to spill.
    pub fn see(&mut self, live: &Live, active: bool) -> Option<String> {
        let shared = live.shared?;
        if !active {
            (self.before, self.said) = (Some(shared), false);
            return None;
        }
        // Who found an attempt running knows nothing of before, and says nothing.
        let more = shared.saturating_sub(self.before?);
        let full = live.memory.is_some_and(|memory| memory.free() < FULL);
        if self.said || !full || more < GROWTH {
            return None;
        }
        self.said = true;
        Some(format!(
            "{MARK}the card was full, and {} MiB more than before lay in the system's memory",
            more >> 20
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Memory;

    const GIB: u64 = 1 << 30;

    fn live(used: u64, shared: u64) -> Live {
        Live {
            memory: Some(Memory {
                total: 24 * GIB,
                used,
                reserved: None,
            }),
            shared: Some(shared),
            ..Live::default()
        }
    }

    #[test]
    fn a_full_card_with_more_beside_it_spills_and_is_said_once() {
        let mut seen = Spilling::default();
        assert_eq!(seen.see(&live(GIB, GIB / 4), false), None);
        assert_eq!(
            seen.see(&live(20 * GIB, 6 * GIB), true),
            None,
            "pinned buffers"
        );
        assert_eq!(
            seen.see(&live(24 * GIB, GIB / 2), true),
            None,
            "full is not beyond"
        );
        let said = seen.see(&live(24 * GIB, 5 * GIB), true).unwrap();
        assert!(
            said.starts_with(MARK) && said.contains("4864 MiB"),
            "{said}"
        );
        assert_eq!(seen.see(&live(24 * GIB, 6 * GIB), true), None);
        assert_eq!(seen.see(&live(GIB, GIB / 4), false), None);
        assert!(
            seen.see(&live(24 * GIB, 5 * GIB), true).is_some(),
            "the next attempt"
        );
    }

    #[test]
    fn who_knows_nothing_of_before_says_nothing() {
        assert_eq!(
            Spilling::default().see(&live(24 * GIB, 9 * GIB), true),
            None
        );
        let mut seen = Spilling::default();
        let untold = Live::default();
        assert_eq!(
            (seen.see(&untold, false), seen.see(&untold, true)),
            (None, None)
        );
    }
}
