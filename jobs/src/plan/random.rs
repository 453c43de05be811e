//! `random = N`: cells drawn by the sweep's seed. The generator is our own (splitmix64), so that every version and
//! every machine draws the same; a larger N begins with the draws of a smaller one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expand::{At, ExpandError, cell_text, combinations, grid_cell};
use crate::spec::{Axis, AxisValues, Params};

/// Draws that may be thrown away, one after another, as they were drawn before.
const MOST_REDRAWS: u32 = 10_000;

/// Steele, Lea and Flood's splitmix64: 64 bits of state, every seed is good.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`, each equally likely: the uneven rest at the top is drawn again.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let rest = (u64::MAX % end + 1) % end;
        loop {
            let drawn = self.next();
            if drawn <= u64::MAX - rest {
                return drawn % end;
            }
        }
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The numbers from 0 to below `size` in random order, shuffled as they are dealt; when all are dealt, again.
struct Deck {
    size: u64,
    dealt: u64,
    /// Where the shuffle so far has moved a number; all others are at their own place.
    moved: BTreeMap<u64, u64>,
}

impl Deck {
    fn new(size: u64) -> Self {
        Self {
            size,
            dealt: 0,
            moved: BTreeMap::new(),
        }
    }

    fn deal(&mut self, random: &mut SplitMix64) -> u64 {
        if self.dealt == self.size {
            *self = Self::new(self.size);
        }
        let from = self.dealt + random.below(self.size - self.dealt);
        let card = self.moved.get(&from).copied().unwrap_or(from);
        let first = self.moved.remove(&self.dealt).unwrap_or(self.dealt);
        if from != self.dealt {
            self.moved.insert(from, first);
        }
        self.dealt += 1;
        card
    }
}

/// `draws` different cells. Listed values are dealt like cards: no combination comes again before all have come.
pub(super) fn draw(draws: u32, axes: &[Axis], seed: u64) -> Result<Vec<Params>, ExpandError> {
    let all = combinations(axes);
    let ranges = axes
        .iter()
        .any(|axis| matches!(axis.values, AxisValues::Range { .. }));
    if !ranges && u128::from(draws) > all {
        let message = format!("random = {draws}, but the axes have only {all} cells");
        return Err(ExpandError::new(
            At::Random,
            message,
            format!("random = {all} draws every cell"),
        ));
    }
    let Ok(size) = u64::try_from(all) else {
        let help = "shorten the axes, or write long ones as ranges { from = .., to = .. }";
        return Err(ExpandError::new(
            At::Axes,
            "the axes have too many cells to draw from",
            help,
        ));
    };
    let mut random = SplitMix64::new(seed);
    let mut deck = Deck::new(size);
    let mut seen = BTreeSet::new();
    let mut cells = Vec::new();
    let mut redrawn = 0;
    while cells.len() < draws as usize {
        let mut cell = grid_cell(axes, deck.deal(&mut random));
        for axis in axes {
            if let Some(value) = in_range(&axis.values, &mut random) {
                cell.insert(axis.name.clone(), value);
            }
        }
        if seen.insert(cell_text(&cell)) {
            cells.push(cell);
            redrawn = 0;
            continue;
        }
        redrawn += 1;
        if redrawn > MOST_REDRAWS {
            let message = format!(
                "random = {draws}, but only {} different cells were found",
                cells.len()
            );
            return Err(ExpandError::new(
                At::Random,
                message,
                "draw fewer, or widen the ranges",
            ));
        }
    }
    Ok(cells)
}

fn in_range(values: &AxisValues, random: &mut SplitMix64) -> Option<Value> {
    let &AxisValues::Range {
        from,
        to,
        log,
        integer,
    } = values
    else {
        return None;
    };
    let value = match (log, integer) {
        (false, true) => {
            let span = (to - from) as u64;
            return Some(Value::from(
                from as i64 + random.below(span.saturating_add(1)) as i64,
            ));
        }
        (false, false) => from + (to - from) * random.unit(),
        (true, _) => (from.ln() + (to.ln() - from.ln()) * random.unit()).exp(),
    };
    Some(if integer {
        Value::from(value.round().clamp(from, to) as i64)
    } else {
        Value::from(rounded(value).clamp(from, to))
    })
}

/// To six digits: good to read, and the same wherever the logarithm's last bit differs.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_deck_deals_each_number_once_before_it_starts_again() {
        let mut random = SplitMix64::new(7);
        let mut deck = Deck::new(10);
        for _ in 0..3 {
            let mut dealt: Vec<u64> = (0..10).map(|_| deck.deal(&mut random)).collect();
            assert_ne!(dealt, (0..10).collect::<Vec<_>>());
            dealt.sort_unstable();
            assert_eq!(dealt, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn draws_below_are_even() {
        let mut random = SplitMix64::new(3);
        let mut counts = [0u32; 3];
        for _ in 0..30_000 {
            counts[random.below(3) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_700..10_300).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn rounding_keeps_six_digits() {
        assert_eq!(rounded(1.234_567_89e-5), 1.23457e-5);
        assert_eq!(rounded(0.0), 0.0);
    }
}
