//! The recorded measurement of a workload, for a simulated fleet to play back, and the pace of a step on the classes
//! of card that were measured. Knows no other workloads: what was not recorded is `None`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::knowledge::same_class;
use crate::recipe::Recipe;
use crate::seeds::{self, Seed, SeedRow};
use crate::{DeviceClass, Observed, Workload};

static BY_KEY: LazyLock<BTreeMap<String, Vec<Seed>>> = LazyLock::new(|| {
    let mut by_key: BTreeMap<String, Vec<Seed>> = BTreeMap::new();
    for seed in seeds::all() {
        let observation = &seed.observation;
        if let Ok(workload) = Workload::new(observation.mode, &observation.settings, None) {
            by_key.entry(workload.key).or_default().push(seed);
        }
    }
    by_key
});

/// The seeds' own row of this workload on this class of card: the last one, where a run was repeated.
#[must_use]
pub fn measured_seed(workload: &Workload, class: &DeviceClass) -> Option<SeedRow> {
    let seeds = BY_KEY.get(&workload.key)?;
    let mut here = seeds
        .iter()
        .filter(|seed| same_class(&seed.observation.class, class));
    here.next_back().map(|seed| seed.row.clone())
}

/// Seconds of one forward and backward on the RX 7900 XTX by tokens: the six lengths of the cross-GPU probes.
const SECONDS_BY_TOKENS: [(f64, f64); 6] = [
    (2048.0, 4.46),
    (4096.0, 7.33),
    (7177.0, 14.27),
    (8192.0, 15.91),
    (12_288.0, 30.49),
    (16_384.0, 53.5),
];

/// Pace of a class against the RX 7900 XTX at 7,177 tokens.
fn pace(class: &DeviceClass) -> Option<f64> {
    let factors = [
        ("RX 7900 XTX", 1.0),
        // 17.26 s at ranks 16 and 64 against 14.13 to 14.27 s.
        ("RTX 3060 Ti", 17.26 / 14.27),
        // Of v11: 11.8 h for 3 epochs of 1,167 examples, 12.1 s an example of at most 7,177 tokens, not all that long;
        // by its 6,144 to 4,864 cores it is a quarter faster than the 3060 Ti.
        ("RTX 3070 Ti", 17.26 / 14.27 / 1.25),
        // Assumed, not measured: 4,608 cores a generation and a half newer, taken for the 3060 Ti's pace.
        ("RTX 5060 Ti", 17.26 / 14.27),
    ];
    let found = factors
        .into_iter()
        .find(|(name, _)| class.name.contains(name));
    found.map(|(_, factor)| factor)
}

fn seconds_for(tokens: f64) -> f64 {
    let [first, .., last] = SECONDS_BY_TOKENS;
    if tokens <= first.0 {
        return first.1 * tokens / first.0;
    }
    for pair in SECONDS_BY_TOKENS.windows(2) {
        let [(low, low_s), (high, high_s)] = [pair[0], pair[1]];
        if tokens <= high {
            return low_s + (high_s - low_s) * (tokens - low) / (high - low);
        }
    }
    // Beyond what was measured attention rules: the square of the length.
    last.1 * (tokens / last.0).powi(2)
}

fn recipe_factor(recipe: &Recipe) -> f64 {
    // 19.57 s against 14.2 s with DoRA; 13.4 s against 14.2 s with a bf16 base (cross-GPU probes).
    let dora = if recipe.dora { 1.38 } else { 1.0 };
    let base = if recipe.quant.is_kbit() { 1.0 } else { 0.94 };
    dora * base
}

/// Expected seconds of one example forward and backward at the recipe's length; measured where the seeds have it.
#[must_use]
pub fn step_seconds(workload: &Workload, class: &DeviceClass) -> Option<f64> {
    if let Some(seconds) = measured_seed(workload, class)
        .filter(|row| row.status == Observed::Ok)
        .and_then(|row| row.step_seconds)
    {
        return Some(seconds);
    }
    let recipe = workload
        .recipe
        .as_ref()
        .filter(|recipe| is_measured_model(recipe))?;
    let one = seconds_for(recipe.seq_len? as f64) * recipe.batch as f64;
    Some(one * pace(class)? * recipe_factor(recipe))
}

/// The pace was measured on one model only; others by their parameters would be a guess.
fn is_measured_model(recipe: &Recipe) -> bool {
    recipe.architecture() == crate::models::known_model("gemma-3-4b-it")
}
