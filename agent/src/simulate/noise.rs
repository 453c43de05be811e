//! Seeded noise: the same words give the same numbers, on every machine and in every version.
//! Knows no other source of chance.

/// Noise never leaves this many standard deviations: a verdict's band has to cover it.
const WIDEST: f64 = 3.0;

pub(super) struct Noise(u64);

impl Noise {
    /// Started from words, whose order and borders matter (FNV-1a).
    pub fn of(words: &[&str]) -> Self {
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0xff])) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(state)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, but not, 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Around 0 with this standard deviation: the sum of twelve shares.
    pub fn around_zero(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.share()).sum();
        (sum - 6.0).clamp(-WIDEST, WIDEST) * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_give_the_same_numbers() {
        let draw = |words: &[&str]| {
            let mut noise = Noise::of(words);
            (noise.share(), noise.around_zero(1.0))
        };
        assert_eq!(draw(&["a", "b"]), draw(&["a", "b"]));
        assert_ne!(draw(&["a", "b"]), draw(&["ab"]));
    }

    #[test]
    fn it_has_the_stated_spread_and_ends() {
        let mut noise = Noise::of(&["spread"]);
        let drawn: Vec<f64> = (0..10_000).map(|_| noise.around_zero(2.0)).collect();
        let mean = drawn.iter().sum::<f64>() / 10_000.0;
        let variance = drawn.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.1 && (variance.sqrt() - 2.0).abs() < 0.1);
        assert!(drawn.iter().all(|one| one.abs() <= 6.0));
    }
}
