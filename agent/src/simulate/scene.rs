//! From a configuration, a card and a seed to the script of one attempt: what it opens with, whether it finds room,
//! and which kind of job follows. Pure and deterministic: the same four arguments give the same script.

use serde_json::{Value, json};
use vram::{Bytes, RecipeError, Workload};

use super::card::{Card, Config};
use super::memory::{Fit, Peak, peak};
use super::noise::Noise;
use super::pace::{Pace, pace};
use super::script::{Author, Ending, Script};
use super::{bake, fault, oom, train};

/// Loading the weights and making the adapters.
const LOAD_SECONDS: f64 = 40.0;
/// Steps of a probe: the second one has the optimizer's state beside it.
const PROBE_STEPS: u32 = 2;

/// One attempt as its parts need it.
pub(super) struct Scene<'a> {
    pub config: &'a Config,
    pub card: &'a Card,
    pub seed: u64,
    pub peak: Peak,
    pub fit: Fit,
    pub pace: Pace,
    /// Optimizer steps that a checkpoint already has.
    pub resumed: u64,
}

/// The script of one attempt. `seed` is the fleet's and works beside the job's own.
pub fn script(
    config: &Config,
    card: &Card,
    seed: u64,
    resumed: u64,
) -> Result<Script, RecipeError> {
    let workload = Workload::new(config.mode(), &config.params, None)?;
    let seed = seed.wrapping_mul(1_000_003).wrapping_add(config.seed);
    let peak = peak(&workload, card, seed);
    let fit = peak.fit(card);
    let words = ["pace", &seed.to_string(), &card.device.id, &workload.key];
    let scene = Scene {
        pace: pace(&workload, card, fit == Fit::Spills, &mut Noise::of(&words)),
        config,
        card,
        seed,
        peak,
        fit,
        resumed,
    };
    let mut author = Author::new();
    opening(&mut author, &scene);
    let ending = body(&mut author, &scene);
    let script = author.finish(ending);
    Ok(fault::applied(script, config, card))
}

fn opening(author: &mut Author, scene: &Scene) {
    let (card, peak) = (scene.card, &scene.peak);
    author.say(&format!(
        "all that follows is made up by `sweep simulate` in the part of {} ({}, host {}): no program runs here, no \
         device is used, and an hour takes {:.1} s",
        card.device.name,
        card.device.id,
        card.host,
        3600.0 / card.time_scale,
    ));
    author.say(&format!("stands in for: {}", card.argv.join(" ")));
    author.say(&format!(
        "peak {} allocated, {} reserved, {} context ({}); room {}",
        peak.allocated,
        peak.reserved,
        peak.context,
        peak.basis,
        card.load().room(),
    ));
    if scene.pace.assumed {
        author.say("step time is assumed: nothing is known of this program on this card");
    }
    author.wait(LOAD_SECONDS);
}

fn body(author: &mut Author, scene: &Scene) -> Ending {
    match (scene.fit, scene.config.kind) {
        (Fit::OutOfMemory, jobs::Kind::Train) if scene.loads() => {
            train::until_memory_ends(author, scene)
        }
        (Fit::OutOfMemory, _) => out_of_memory(author, scene),
        (_, jobs::Kind::Probe) => probe(author, scene),
        (_, jobs::Kind::Train) => train::whole(author, scene),
        (_, jobs::Kind::Bake) => bake::whole(author, scene),
    }
}

/// Ends as the framework does when it finds no room.
pub(super) fn out_of_memory(author: &mut Author, scene: &Scene) -> Ending {
    let tokens = scene.config.number("seq_len").unwrap_or(7177.0);
    let mut noise = scene.noise("oom");
    author.say("needs more than the card has room for; the error below is made up in the framework's words");
    author.complain(oom::text(
        &scene.peak,
        scene.card,
        tokens as u64,
        &mut noise,
    ));
    Ending::Exit(1)
}

fn probe(author: &mut Author, scene: &Scene) -> Ending {
    for step in 1..=PROBE_STEPS {
        author.wait(scene.pace.seconds);
        author.say(&format!(
            "step {step} of {PROBE_STEPS}: {:.2} s",
            scene.pace.seconds
        ));
        author.report(json!({"progress": f64::from(step) / f64::from(PROBE_STEPS)}));
    }
    author.report(scene.memory());
    author.report(json!({"result": {
        "peak_allocated_mib": mib(scene.peak.allocated),
        "peak_reserved_mib": mib(scene.peak.reserved),
        "step_seconds": rounded(scene.pace.seconds, 2),
        "spilled": scene.fit == Fit::Spills,
        "simulated": true,
    }}));
    Ending::Exit(0)
}

impl Scene<'_> {
    /// Noise of its own for each purpose, so that a change of one moves no other.
    pub fn noise(&self, purpose: &str) -> Noise {
        let params = Value::from_iter(self.config.params.clone()).to_string();
        Noise::of(&[
            purpose,
            &self.seed.to_string(),
            self.config.kind.as_str(),
            &params,
        ])
    }

    /// Whether the weights at least find room.
    fn loads(&self) -> bool {
        let loaded = self.peak.after_load.unwrap_or_default() + self.peak.context;
        loaded <= self.card.load().room()
    }

    /// The observation, as a program reports it.
    pub fn memory(&self) -> Value {
        json!({"memory": {
            "peak_allocated_mib": mib(self.peak.allocated),
            "peak_reserved_mib": mib(self.peak.reserved),
            "context_mib": mib(self.peak.context),
            "after_load_mib": self.peak.after_load.map(mib),
            "pre_step_mib": self.peak.pre_step.map(mib),
            "usable_mib": mib(self.card.load().usable),
            "held_mib": mib(self.card.load().held),
            // Of one example, as in the memory model, for a training run too.
            "step_seconds": rounded(self.pace.seconds, 2),
            "spilled": self.fit == Fit::Spills,
            "basis": self.peak.basis.to_string(),
            "simulated": true,
        }})
    }
}

pub(super) fn mib(bytes: Bytes) -> f64 {
    rounded(bytes.mib(), 1)
}

pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use jobs::Kind;

    use super::super::card::examples::*;
    use super::super::script::What;
    use super::*;

    fn of(card: &Card, kind: Kind, changes: &Value, resumed: u64) -> Script {
        script(&config(kind, changes), card, 21, resumed).unwrap()
    }

    fn reports<'a>(script: &'a Script, name: &str) -> Vec<&'a Value> {
        let lines = script.steps.iter().filter_map(|step| match &step.what {
            What::Report(line) => line.get(name),
            _ => None,
        });
        lines.collect()
    }

    fn complaint(script: &Script) -> Option<&str> {
        script.steps.iter().find_map(|step| match &step.what {
            What::Complain(text) => Some(text.as_str()),
            _ => None,
        })
    }

    fn hours(script: &Script) -> f64 {
        script.steps.last().unwrap().at / 3600.0
    }

    #[test]
    fn the_same_seed_gives_the_same_script() {
        let card = rtx_5060_ti();
        for kind in Kind::ALL {
            let one = of(&card, kind, &json!({}), 0);
            assert_eq!(one, of(&card, kind, &json!({}), 0));
            let other = script(&config(kind, &json!({})), &card, 22, 0).unwrap();
            assert_ne!(one, other);
        }
    }

    #[test]
    fn rank_112_with_dropout_runs_out_of_memory_on_the_8_gb_card() {
        let drop = json!({"dropout": 0.1});
        let train = of(&rtx_3070_ti(), Kind::Train, &drop, 0);
        assert_eq!(train.ending, Ending::Exit(1));
        assert!(
            complaint(&train)
                .unwrap()
                .starts_with("torch.OutOfMemoryError: CUDA out of memory. ")
        );
        // In the middle of the run, as v14 did, and from a checkpoint again.
        assert!((190..=270).contains(&train.steps.last().unwrap().done));
        let again = of(&rtx_3070_ti(), Kind::Train, &drop, 225);
        assert_eq!(again.ending, Ending::Exit(1));
        assert_eq!(
            of(&rtx_5060_ti(), Kind::Train, &drop, 0).ending,
            Ending::Exit(0)
        );
    }

    #[test]
    fn no_fixes_spill_on_the_windows_card_and_take_four_times_as_long() {
        let none = json!({"memory_fixes": []});
        let probe = of(&rx_7900_xtx(), Kind::Probe, &none, 0);
        let memory = reports(&probe, "memory")[0];
        assert_eq!(
            (&memory["spilled"], &memory["simulated"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(memory["peak_allocated_mib"], 36_581.3);
        assert_eq!(probe.ending, Ending::Exit(0));
        let slower = hours(&of(&rx_7900_xtx(), Kind::Train, &none, 0))
            / hours(&of(&rx_7900_xtx(), Kind::Train, &json!({}), 0));
        assert!((3.8..4.2).contains(&slower), "{slower}");
    }

    #[test]
    fn a_training_run_has_the_length_of_the_seeds_own() {
        let train = of(&rtx_3070_ti(), Kind::Train, &json!({}), 0);
        assert!((11.0..13.0).contains(&hours(&train)), "{}", hours(&train));
        assert_eq!(train.steps.last().unwrap().done, 441);
        let losses: Vec<f64> = reports(&train, "metric")
            .iter()
            .filter_map(|metric| metric["loss"].as_f64())
            .collect();
        assert!(losses.first() > losses.last().map(|last| last * 4.0).as_ref());
        let result = reports(&train, "result")[0];
        assert!(result["held_out_loss"].is_f64() && result["simulated"] == json!(true));
        assert_eq!(result["loss"].as_f64(), losses.last().copied());
        let capped = of(&rtx_3070_ti(), Kind::Train, &json!({"max_steps": 225}), 0);
        assert_eq!(capped.steps.last().unwrap().done, 225);
    }

    #[test]
    fn a_resumed_run_does_only_what_is_left() {
        let whole = of(&rtx_5060_ti(), Kind::Train, &json!({}), 0);
        let rest = of(&rtx_5060_ti(), Kind::Train, &json!({}), 400);
        assert!(hours(&rest) < hours(&whole) / 8.0);
        let over = of(&rtx_5060_ti(), Kind::Train, &json!({}), 9999);
        assert_eq!(
            (over.ending, reports(&over, "result").len()),
            (Ending::Exit(0), 1)
        );
    }

    #[test]
    fn a_bake_gives_its_passes_and_their_means() {
        let bake = of(&rx_7900_xtx(), Kind::Bake, &json!({}), 0);
        let result = reports(&bake, "result")[0];
        assert_eq!(result["passes"].as_array().unwrap().len(), 3);
        assert!((0.9..1.0).contains(&result["held_out"].as_f64().unwrap()));
        assert!((1.0..2.0).contains(&hours(&bake)), "{}", hours(&bake));
    }

    #[test]
    fn every_line_says_that_it_is_simulated() {
        for kind in Kind::ALL {
            let script = of(&rtx_3060_ti(), kind, &json!({"rank": 16}), 0);
            assert!(
                matches!(&script.steps[0].what, What::Say(line) if line.contains("sweep simulate"))
            );
            for step in &script.steps {
                match &step.what {
                    What::Say(line) => assert!(line.starts_with("simulated: ")),
                    What::Complain(text) => panic!("{text}"),
                    What::Report(line) => {
                        for name in ["memory", "result"] {
                            let marked = line
                                .get(name)
                                .is_none_or(|one| one["simulated"] == json!(true));
                            assert!(marked, "{line}");
                        }
                    }
                    What::Checkpoint => {}
                }
            }
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let config = config(Kind::Train, &json!({"rank": "many"}));
        assert_eq!(
            script(&config, &rtx_3070_ti(), 0, 0).unwrap_err().key,
            "rank"
        );
    }
}
