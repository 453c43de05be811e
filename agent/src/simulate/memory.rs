//! The peak that a simulated attempt shows: the seeds' own figures where they have the configuration on that class of
//! card, otherwise the model's with a little noise; and what comes of it on the card as full as it is.
//! Its figures are played back, so nothing may learn from them.

use std::fmt;
use std::sync::LazyLock;

use vram::{Bytes, Estimate, Knowledge, Observed, SeedRow, Source, Workload};

use super::card::Card;
use super::noise::Noise;

/// Spread of repeated measurements of one recipe (the allocator's own), as a share.
const SPREAD: f64 = 0.003;
/// Of a program that the memory model knows nothing of: a figure that fits everywhere, said to be assumed.
const ASSUMED_MIB: f64 = 1024.0;

/// The model that verdicts start from as well, so that a simulation agrees with them up to its noise.
static KNOWLEDGE: LazyLock<Knowledge> = LazyLock::new(Knowledge::seeds);

/// What a simulated peak rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// This row of the seeds.
    Recorded(String),
    Modelled(Source),
    Assumed,
}

impl fmt::Display for Basis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded(row) => write!(out, "as recorded ({row})"),
            Self::Modelled(source) => write!(out, "the model with noise ({})", source.as_str()),
            Self::Assumed => out.write_str("assumed, nothing is known of this program"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    pub allocated: Bytes,
    pub reserved: Bytes,
    /// What the driver takes besides.
    pub context: Bytes,
    pub after_load: Option<Bytes>,
    pub pre_step: Option<Bytes>,
    pub basis: Basis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    Fits,
    OutOfMemory,
    Spills,
}

impl Peak {
    #[must_use]
    pub fn need(&self) -> Bytes {
        self.reserved + self.context
    }

    /// What happens on this card.
    #[must_use]
    pub fn fit(&self, card: &Card) -> Fit {
        match self.need() > card.load().room() {
            false => Fit::Fits,
            true if card.device.spills => Fit::Spills,
            true => Fit::OutOfMemory,
        }
    }
}

/// The peak of a workload on a card; the same seed gives the same peak.
#[must_use]
pub fn peak(workload: &Workload, card: &Card, seed: u64) -> Peak {
    let class = card.class();
    let estimate = vram::estimate(workload, &class, &KNOWLEDGE);
    let words = ["memory", &seed.to_string(), &card.device.id, &workload.key];
    let factor = 1.0 + Noise::of(&words).around_zero(SPREAD);
    match (vram::measured_seed(workload, &class), estimate) {
        (Some(row), Some(estimate)) if row.allocated.is_some() && row.status != Observed::Oom => {
            recorded(row, &estimate, card, factor)
        }
        (row, Some(estimate)) => Peak {
            after_load: row.as_ref().and_then(|row| row.after_load),
            pre_step: row.as_ref().and_then(|row| row.pre_step),
            ..modelled(&estimate, factor)
        },
        (_, None) => assumed(factor),
    }
}

fn recorded(row: SeedRow, estimate: &Estimate, card: &Card, factor: f64) -> Peak {
    let allocated = row.allocated.unwrap_or(estimate.allocated);
    let reserved = row.reserved.unwrap_or_else(|| {
        let usual = scaled(estimate.reserved, factor);
        // It ran to its end on such a card, so the allocator gave back what it had cached rather than fail.
        let most = card.load().usable.saturating_sub(estimate.context);
        usual.min(most).max(allocated)
    });
    Peak {
        allocated,
        reserved,
        context: estimate.context,
        after_load: row.after_load,
        pre_step: row.pre_step,
        basis: Basis::Recorded(row.source),
    }
}

fn modelled(estimate: &Estimate, factor: f64) -> Peak {
    Peak {
        allocated: scaled(estimate.allocated, factor),
        reserved: scaled(estimate.reserved, factor),
        context: estimate.context,
        after_load: None,
        pre_step: None,
        basis: Basis::Modelled(estimate.source),
    }
}

fn assumed(factor: f64) -> Peak {
    let allocated = Bytes::from_mib(ASSUMED_MIB * factor);
    Peak {
        allocated,
        reserved: allocated,
        context: Bytes::ZERO,
        after_load: None,
        pre_step: None,
        basis: Basis::Assumed,
    }
}

fn scaled(bytes: Bytes, factor: f64) -> Bytes {
    Bytes::from_mib(bytes.mib() * factor)
}

#[cfg(test)]
mod tests {
    use jobs::Kind;
    use serde_json::{Value, json};

    use super::super::card::examples::*;
    use super::*;

    fn peak_of(card: &Card, kind: Kind, changes: &Value) -> Peak {
        let config = config(kind, changes);
        let workload = Workload::new(config.mode(), &config.params, None).unwrap();
        peak(&workload, card, 7)
    }

    fn fit_of(card: &Card, kind: Kind, changes: &Value) -> Fit {
        peak_of(card, kind, changes).fit(card)
    }

    #[test]
    fn recorded_figures_come_back_exactly() {
        let card = rx_7900_xtx();
        let seen = peak_of(&card, Kind::Probe, &json!({"rank": 96, "dropout": 0.1}));
        assert_eq!(seen.allocated, Bytes::from_mib(7059.3));
        assert_eq!(seen.reserved, Bytes::from_mib(7520.0));
        assert_eq!(seen.after_load, Some(Bytes::from_mib(3079.8)));
        assert!(matches!(seen.basis, Basis::Recorded(_)));
        let real = peak_of(&rtx_3070_ti(), Kind::Train, &json!({}));
        assert_eq!(real.allocated, Bytes::from_mib(6658.0));
    }

    #[test]
    fn what_was_not_recorded_is_the_model_within_its_noise() {
        let card = rtx_5060_ti();
        let config = config(Kind::Train, &json!({"rank": 104}));
        let workload = Workload::new(vram::Mode::Train, &config.params, None).unwrap();
        let model = vram::estimate(&workload, &card.class(), &KNOWLEDGE).unwrap();
        let seen = peak(&workload, &card, 7);
        assert!(matches!(seen.basis, Basis::Modelled(_)));
        let off = (seen.allocated.mib() / model.allocated.mib() - 1.0).abs();
        assert!(off > 0.0 && off <= 3.0 * SPREAD, "{off}");
        assert_ne!(seen, peak(&workload, &card, 8));
    }

    #[test]
    fn the_seeds_endings_come_out() {
        let drop = |rank: u64| json!({"rank": rank, "dropout": 0.1});
        let small = rtx_3070_ti();
        assert_eq!(fit_of(&small, Kind::Train, &json!({})), Fit::Fits);
        assert_eq!(fit_of(&small, Kind::Train, &drop(112)), Fit::OutOfMemory);
        assert_eq!(fit_of(&small, Kind::Train, &drop(96)), Fit::Fits);
        assert_eq!(fit_of(&small, Kind::Probe, &drop(96)), Fit::Fits);
        assert_eq!(fit_of(&small, Kind::Probe, &drop(104)), Fit::OutOfMemory);
        assert_eq!(fit_of(&small, Kind::Probe, &json!({})), Fit::OutOfMemory);
        let held = rtx_3060_ti();
        assert_eq!(fit_of(&held, Kind::Probe, &json!({"rank": 64})), Fit::Fits);
        assert_eq!(
            fit_of(&held, Kind::Probe, &json!({"rank": 96})),
            Fit::OutOfMemory
        );
        assert_eq!(fit_of(&rtx_5060_ti(), Kind::Train, &drop(112)), Fit::Fits);
    }

    #[test]
    fn a_windows_card_spills() {
        let card = rx_7900_xtx();
        let none = json!({"memory_fixes": []});
        assert_eq!(fit_of(&card, Kind::Probe, &none), Fit::Spills);
        assert_eq!(
            peak_of(&card, Kind::Probe, &none).allocated,
            Bytes::from_mib(36_581.3)
        );
        assert_eq!(fit_of(&card, Kind::Train, &json!({})), Fit::Fits);
    }

    #[test]
    fn a_program_of_its_own_is_said_to_be_assumed() {
        let workload = Workload::new(vram::Mode::Train, &Default::default(), None).unwrap();
        assert_eq!(peak(&workload, &rtx_3060_ti(), 1).basis, Basis::Assumed);
    }
}
