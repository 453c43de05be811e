//! A simulated training run: steps with a made-up falling loss, checkpoints, and a result.
//! The loss is an exponential with noise, not a model of learning; what a recipe does to it says nothing.

use serde_json::json;

use super::memory::Fit;
use super::noise::Noise;
use super::scene::{Scene, out_of_memory, rounded};
use super::script::{Author, Ending};

/// Examples of the corpus of 21 September, the one that the shipped sweeps name.
const EXAMPLES: f64 = 1172.0;
/// Examples of one optimizer step: 3 epochs are then 441 steps, and the program's runs had about 440.
const EXAMPLES_PER_STEP: f64 = 8.0;
/// Mean over longest example: v11 took 11.8 h for 3,501 examples, 12.1 s each, where the longest takes 13.8 s.
const MEAN_LENGTH: f64 = 0.88;
const REPORT_EVERY: u64 = 10;
const CHECKPOINT_EVERY: u64 = 25;
/// A need beyond the room by less than this runs out in the middle of a run, as v14 did; otherwise in the first step.
const CLOSE: f64 = 1.05;

/// Optimizer steps of the whole run; `max_steps` of the settings caps them.
fn steps(scene: &Scene) -> u64 {
    let epochs = scene
        .config
        .number("epochs")
        .unwrap_or(3.0)
        .clamp(0.0, 1000.0);
    let steps = (epochs * (EXAMPLES / EXAMPLES_PER_STEP).ceil())
        .ceil()
        .max(1.0);
    let most = scene.config.number("max_steps").filter(|most| *most >= 1.0);
    steps.min(most.unwrap_or(steps)) as u64
}

fn step_seconds(scene: &Scene) -> f64 {
    scene.pace.seconds * EXAMPLES_PER_STEP * MEAN_LENGTH
}

/// The made-up curves, and where they are.
struct Loss {
    noise: Noise,
    train: f64,
    held_out: f64,
}

impl Loss {
    fn new(noise: Noise) -> Self {
        Self {
            noise,
            train: 0.0,
            held_out: 0.0,
        }
    }

    /// Falls from 2.4 to about 0.3 with a constant of 60 steps.
    fn train(&mut self, step: u64) -> f64 {
        let falling = 0.3 + 2.1 * (-(step as f64) / 60.0).exp();
        self.train = rounded(falling * (1.0 + self.noise.around_zero(0.03)), 4);
        self.train
    }

    /// Lowest near step 120, then rising a little, as in most runs of the seeds that had an evaluation set (F04).
    fn held_out(&mut self, step: u64) -> f64 {
        let step = step as f64;
        let bent = 0.28 + 2.1 * (-step / 20.0).exp() + 0.000_25 * step;
        self.held_out = rounded(bent * (1.0 + self.noise.around_zero(0.01)), 4);
        self.held_out
    }
}

/// To its end.
pub(super) fn whole(author: &mut Author, scene: &Scene) -> Ending {
    let total = steps(scene);
    let mut loss = run(author, scene, total, total);
    if scene.resumed >= total {
        // Nothing was left to do.
        loss.train(total);
        loss.held_out(total);
    }
    author.report(scene.memory());
    author.report(json!({"result": {
        "loss": loss.train, "held_out_loss": loss.held_out, "steps": total,
        "spilled": scene.fit == Fit::Spills, "simulated": true,
    }}));
    Ending::Exit(0)
}

/// To the step in which there is no room.
pub(super) fn until_memory_ends(author: &mut Author, scene: &Scene) -> Ending {
    let (need, room) = (scene.peak.need().mib(), scene.card.load().room().mib());
    let share = scene.noise("step of the error").share();
    let total = steps(scene);
    let last = if need <= room * CLOSE {
        ((0.45 + 0.15 * share) * total as f64) as u64
    } else {
        0
    };
    // Whatever a checkpoint has, the long example comes again.
    run(author, scene, total, last.max(scene.resumed.min(total)));
    author.wait(step_seconds(scene) / 2.0);
    out_of_memory(author, scene)
}

fn run(author: &mut Author, scene: &Scene, total: u64, last: u64) -> Loss {
    let mut loss = Loss::new(scene.noise("loss"));
    let first = scene.resumed.min(total);
    author.reach(first);
    if first > 0 {
        author.say(&format!("goes on from the checkpoint of step {first}"));
    }
    author.say(&format!(
        "{total} optimizer steps of {:.1} s: {EXAMPLES} examples assumed, {EXAMPLES_PER_STEP} a step",
        step_seconds(scene),
    ));
    for step in first + 1..=last {
        author.wait(step_seconds(scene));
        author.reach(step);
        // What a run that fails later had reached by now is not known.
        if step == first + 1 && scene.fit != Fit::OutOfMemory {
            author.report(scene.memory());
        }
        let (ends, saves) = (step == total, step.is_multiple_of(CHECKPOINT_EVERY));
        if step == first + 1 || step.is_multiple_of(REPORT_EVERY) || ends {
            author.report(json!({"metric": {"loss": loss.train(step)}, "step": step}));
            author.report(json!({"progress": rounded(step as f64 / total as f64, 4)}));
        }
        if saves || ends {
            let held_out = loss.held_out(step);
            author.report(json!({"metric": {"held_out_loss": held_out}, "step": step}));
            author.say(&format!("step {step} of {total}, held-out loss {held_out}"));
            author.checkpoint();
        }
    }
    loss
}
