//! What a driver's report means for an attempt on that card. Pure; the numbers are NVIDIA's Xid, in their published table.
//! What is not known to take the whole card along ends nothing by itself: it only explains a failure.

/// How far a fault reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Said to people, no more: nothing that runs is hurt.
    Nothing,
    /// Some program on the card; whose is not told. One that fails then failed of this.
    Program,
    /// No program on the card can go on.
    Card,
}

/// Double-bit error, halted controller, off the bus, uncontained error, security fault, hung GSP (two), unrecovered error,
/// failed initialisation.
const CARD: [u64; 9] = [48, 62, 79, 95, 110, 119, 120, 140, 143];
/// A program that was ended, a remapped row, corrected errors (two).
const NOTHING: [u64; 4] = [45, 63, 92, 121];

#[must_use]
pub fn reach(code: u64) -> Reach {
    match code {
        code if CARD.contains(&code) => Reach::Card,
        code if NOTHING.contains(&code) => Reach::Nothing,
        _ => Reach::Program,
    }
}

/// Something that attempts on a device are to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// As the host's file names it.
    pub device: String,
    pub what: String,
    /// They cannot go on.
    pub ends: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_the_card_along_ends_anything() {
        assert_eq!([79, 48, 119].map(reach), [Reach::Card; 3]);
        // Illegal accesses, and a number that nobody knows yet.
        assert_eq!([13, 31, 43, 100_000].map(reach), [Reach::Program; 4]);
        assert_eq!([45, 63].map(reach), [Reach::Nothing; 2]);
    }
}
