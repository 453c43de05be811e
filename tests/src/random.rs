//! Moments and choices that a failing test can repeat: `SWEEP_TEST_SEED` brings the same ones back.

use std::time::Duration;

/// SplitMix64: small, and good enough to choose moments with.
pub struct Random(u64);

impl Random {
    /// From `SWEEP_TEST_SEED`, else a fixed seed; printed, so that a failure shows it.
    #[must_use]
    pub fn seeded() -> Self {
        let given = std::env::var("SWEEP_TEST_SEED").ok();
        let seed = given.map_or(7, |text| text.parse().expect("SWEEP_TEST_SEED is a number"));
        println!("SWEEP_TEST_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Lets a random time go by, below `bound`: the moment itself is what is tested.
    pub fn moment(&mut self, bound: Duration) {
        let micros = u64::try_from(bound.as_micros()).expect("a short time");
        std::thread::sleep(Duration::from_micros(self.below(micros)));
    }
}
