//! How long one example takes on a simulated card: the memory model's pace where it has one for the class, otherwise
//! by the card's own `speed`, otherwise an assumed figure. Refuses to call an assumed figure anything else.

use vram::{Backend, DeviceClass, Workload};

use super::card::Card;
use super::noise::Noise;

/// A spilled step takes this much longer: 57.8 to 68.7 s in the seeds against 14.3 to 16.9 s.
pub(super) const SPILLED: f64 = 4.0;
/// Spread of step times between runs of one recipe.
const SPREAD: f64 = 0.01;
/// Of a program that nothing is known of.
const ASSUMED_SECONDS: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Simulated seconds of one example forward and backward, at the recipe's longest.
    pub seconds: f64,
    pub assumed: bool,
}

pub(super) fn pace(workload: &Workload, card: &Card, spills: bool, noise: &mut Noise) -> Pace {
    let class = card.class();
    let jitter = 1.0 + noise.around_zero(SPREAD);
    let slower = if spills { SPILLED } else { 1.0 };
    let recorded = vram::measured_seed(workload, &class)
        .and_then(|row| row.step_seconds)
        // A row that spilled already has its slowness in it.
        .filter(|_| spills);
    if let Some(seconds) = recorded {
        return Pace {
            seconds,
            assumed: false,
        };
    }
    let known = vram::step_seconds(workload, &class);
    let seconds = known.or_else(|| by_speed(workload, card));
    Pace {
        seconds: seconds.unwrap_or(ASSUMED_SECONDS) * slower * jitter,
        assumed: seconds.is_none(),
    }
}

/// `speed` counts against this card, the one with most step times in the seeds.
fn by_speed(workload: &Workload, card: &Card) -> Option<f64> {
    let reference = DeviceClass {
        name: "AMD Radeon RX 7900 XTX".to_owned(),
        backend: Backend::Rocm,
        os: "windows".to_owned(),
        spills: true,
        simulated: true,
    };
    let seconds = vram::step_seconds(workload, &reference)?;
    (card.device.speed > 0.0).then(|| seconds / card.device.speed)
}

#[cfg(test)]
mod tests {
    use jobs::Kind;
    use serde_json::{Value, json};

    use super::super::card::examples::*;
    use super::*;

    fn seconds(card: &Card, changes: &Value, spills: bool) -> Pace {
        let config = config(Kind::Probe, changes);
        let workload = Workload::new(config.mode(), &config.params, None).unwrap();
        pace(&workload, card, spills, &mut Noise::of(&["pace"]))
    }

    #[test]
    fn a_spilled_step_is_as_slow_as_recorded_or_four_times_slower() {
        let card = rx_7900_xtx();
        let none = json!({"memory_fixes": []});
        assert_eq!(seconds(&card, &none, true).seconds, 57.79);
        let other = json!({"rank": 48, "memory_fixes": []});
        let slower = seconds(&card, &other, true).seconds / seconds(&card, &other, false).seconds;
        assert!((slower - SPILLED).abs() < 1e-9);
    }

    #[test]
    fn an_unknown_card_goes_by_its_speed() {
        let mut card = rtx_5060_ti();
        card.device.name = "NVIDIA Unheard Of".to_owned();
        assert!(seconds(&card, &json!({}), false).assumed);
        card.device.speed = 2.0;
        let pace = seconds(&card, &json!({}), false);
        assert!(
            !pace.assumed && (6.5..8.0).contains(&pace.seconds),
            "{pace:?}"
        );
    }
}
