//! A simulated evaluation: passes over the cases and guards, scores from the made-up response surface.
//! Reads no case file: it takes how many cases there are from the file's name, or the numbers of the shipped ones.

use serde_json::{Value, json};

use super::noise::Noise;
use super::scene::{Scene, rounded};
use super::script::{Author, Ending};
use super::surface::{Scores, scores};

/// Of cases-1131.jsonl and guards-174.jsonl.
const CASES: f64 = 1131.0;
const GUARDS: f64 = 174.0;
/// 110 of the 1,131 cases are held out of the training data.
const HELD_OUT: f64 = 110.0 / 1131.0;
/// Rank-112 fine-tunes took 1.17 to 1.34 s a case on the card of `speed` 1.03 (F22).
const CASE_SECONDS: f64 = 1.25;
const CASE_SPEED: f64 = 1.03;
/// Progress reports of one pass.
const PARTS: u32 = 10;
const MOST_PASSES: f64 = 1000.0;

/// The last number in a file's name, e.g. 1131 of `cases-1131.jsonl`.
fn count(file: Option<&Value>, otherwise: f64) -> f64 {
    let name = file.and_then(Value::as_str).unwrap_or_default();
    let words = name.split(|c: char| !c.is_ascii_digit());
    let number = words
        .filter_map(|word| word.parse::<f64>().ok())
        .next_back();
    number
        .filter(|count| *count >= 1.0 && *count <= 1e7)
        .unwrap_or(otherwise)
}

struct Cases {
    train: f64,
    held_out: f64,
    guards: f64,
}

impl Cases {
    fn of(scene: &Scene) -> Self {
        let all = count(scene.config.of_stage("cases"), CASES);
        let held_out = (all * HELD_OUT).round().max(1.0);
        Self {
            train: (all - held_out).max(1.0),
            held_out,
            guards: count(scene.config.of_stage("guards"), GUARDS),
        }
    }

    fn seconds(&self, scene: &Scene) -> f64 {
        let speed = scene.card.device.speed;
        let slower = if speed > 0.0 { CASE_SPEED / speed } else { 1.0 };
        (self.train + self.held_out + self.guards) * CASE_SECONDS * slower
    }
}

/// Cases passed of so many, a case more or less from pass to pass.
fn passed(share: f64, cases: f64, noise: &mut Noise) -> f64 {
    (share * cases + noise.around_zero(0.6))
        .round()
        .clamp(0.0, cases)
}

/// What one pass found, as shares of its cases.
struct Pass {
    held_out: f64,
    train: f64,
    guards: f64,
    /// Guard cases that failed by acting, not by asking back.
    breaches: u64,
}

impl Pass {
    fn of(scores: Scores, cases: &Cases, noise: &mut Noise) -> Self {
        let guards = passed(scores.guards, cases.guards, noise);
        Self {
            held_out: passed(scores.held_out, cases.held_out, noise) / cases.held_out,
            train: passed(scores.train, cases.train, noise) / cases.train,
            guards: guards / cases.guards,
            breaches: ((cases.guards - guards) * 0.4).round() as u64,
        }
    }
}

/// The named figure of each pass, in order.
fn each(passes: &[Pass], figure: impl Fn(&Pass) -> f64) -> Vec<f64> {
    passes.iter().map(|pass| rounded(figure(pass), 4)).collect()
}

fn mean(figures: &[f64]) -> f64 {
    rounded(figures.iter().sum::<f64>() / figures.len().max(1) as f64, 4)
}

fn result(passes: &[Pass], cases: &Cases) -> Value {
    let held_out = each(passes, |pass| pass.held_out);
    let guards = each(passes, |pass| pass.guards);
    json!({
        "held_out": mean(&held_out),
        "train": mean(&each(passes, |pass| pass.train)),
        "guards": mean(&guards),
        "passes": held_out,
        "guard_passes": guards,
        "breaches": passes.iter().map(|pass| pass.breaches).collect::<Vec<_>>(),
        "cases": (cases.train + cases.held_out) as u64,
        "guard_cases": cases.guards as u64,
        "simulated": true,
    })
}

pub(super) fn whole(author: &mut Author, scene: &Scene) -> Ending {
    let cases = Cases::of(scene);
    let wanted = scene.config.of_stage("passes").and_then(Value::as_f64);
    let wanted = wanted.unwrap_or(1.0).clamp(1.0, MOST_PASSES) as u32;
    let scores = scores(scene.config, &mut scene.noise("surface"));
    let mut noise = scene.noise("passes");
    let mut passes = Vec::new();
    author.report(scene.memory());
    for at in 1..=wanted {
        for part in 1..=PARTS {
            author.wait(cases.seconds(scene) / f64::from(PARTS));
            let done = f64::from((at - 1) * PARTS + part) / f64::from(wanted * PARTS);
            author.report(json!({"progress": rounded(done, 4)}));
        }
        let pass = Pass::of(scores, &cases, &mut noise);
        let held_out = rounded(pass.held_out, 4);
        author.say(&format!(
            "pass {at} of {wanted}: held out {held_out}, guards {:.4}",
            pass.guards
        ));
        author.report(json!({"metric": {"held_out": held_out}, "step": at}));
        passes.push(pass);
    }
    author.report(json!({"result": result(&passes, &cases)}));
    Ending::Exit(0)
}
