//! What would make it fit: smaller recipes of a workload that does not, smallest change first.
//! Suggests nothing that its own verdict does not call `fits`, and nothing for a program it cannot read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::planning;
use crate::recipe::{MEMORY_FIXES, Optimizer, Recipe};
use crate::replay::{ReplaySettings, run};
use crate::step::stream;
use crate::{
    Bytes, DeviceClass, DeviceLoad, Knowledge, Mode, Settings, Source, VerdictKind, Workload,
    estimate, verdict,
};

/// One changed setting or more, and what is needed then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words: `rank 96 instead of 112`.
    pub change: String,
    /// The settings to change, by name.
    pub settings: Settings,
    pub need: Bytes,
    pub band: Bytes,
}

struct Change {
    words: String,
    settings: Settings,
}

impl Change {
    fn new(words: impl Into<String>, key: &str, value: Value) -> Self {
        Self {
            words: words.into(),
            settings: Settings::from([(key.to_owned(), value)]),
        }
    }
}

/// Changes that leave the training's arithmetic alone first, then smaller recipes; of each kind the smallest that fits.
#[must_use]
pub fn would_fit(
    workload: &Workload,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Vec<Suggestion> {
    let Some(recipe) = &workload.recipe else {
        return Vec::new();
    };
    let mut found: Vec<Suggestion> = Vec::new();
    for kind in [
        free_changes(workload, recipe),
        fixes(recipe),
        optimizers(workload, recipe),
        no_dropout(recipe),
        ranks(recipe),
        no_dora(recipe),
        quants(recipe),
        lengths(recipe),
    ] {
        let fitting = kind
            .into_iter()
            .find_map(|change| tried(workload, change, class, load, knowledge));
        found.extend(fitting);
    }
    if found.is_empty() {
        found.extend(
            together(recipe)
                .into_iter()
                .find_map(|change| tried(workload, change, class, load, knowledge)),
        );
    }
    found
}

/// Where no single change is enough: every memory fix, 4-bit weights, and a smaller rank on top where need be.
fn together(recipe: &Recipe) -> Vec<Change> {
    let mut base = Change::new("every memory fix", "memory_fixes", json!(MEMORY_FIXES));
    if !recipe.quant.is_kbit() {
        base.words += " and nf4 weights";
        base.settings.insert("quant".to_owned(), json!("nf4"));
    }
    let with_rank = ranks(recipe).into_iter().map(|smaller| {
        let mut settings = base.settings.clone();
        settings.extend(smaller.settings);
        Change {
            words: format!("{} and {}", base.words, smaller.words),
            settings,
        }
    });
    let with_rank: Vec<Change> = with_rank.collect();
    std::iter::once(base).chain(with_rank).collect()
}

fn tried(
    workload: &Workload,
    change: Change,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Option<Suggestion> {
    let mut settings = workload.settings.clone();
    settings.extend(change.settings.clone());
    let smaller = Workload::new(workload.mode, &settings, workload.declared).ok()?;
    let answer = verdict(estimate(&smaller, class, knowledge), class, load);
    let known = answer
        .estimate
        .filter(|_| answer.kind == VerdictKind::Fits)?;
    // What ran to its end on this very card needs no rehearsal.
    let ran = known.source == Source::Measured;
    if !ran && !survives(&smaller, class, load.room().saturating_sub(known.context)) {
        return None;
    }
    Some(Suggestion {
        change: change.words,
        settings: change.settings,
        need: known.need(),
        band: known.band,
    })
}

fn fixes(recipe: &Recipe) -> Vec<Change> {
    let missing: Vec<&str> = MEMORY_FIXES
        .into_iter()
        .filter(|name| !recipe.has_fix(name))
        .collect();
    let with = |added: &[&str]| {
        let names: Vec<&str> = MEMORY_FIXES
            .into_iter()
            .filter(|name| recipe.has_fix(name) || added.contains(name))
            .collect();
        Change::new(
            format!("memory fix {}", added.join(" and ")),
            "memory_fixes",
            json!(names),
        )
    };
    let mut changes: Vec<Change> = missing.iter().map(|name| with(&[name])).collect();
    if missing.len() > 1 {
        changes.push(with(&missing));
    }
    changes
}

/// Rehearsed and replayed in a little less than the room there is (memory-model 8 asks for 1.5 %): a recipe that the
/// arithmetic lets in may still find no place for one block.
fn survives(workload: &Workload, class: &DeviceClass, limit: Bytes) -> bool {
    const MARGIN: f64 = 0.985;
    let recipe = workload
        .recipe
        .as_ref()
        .filter(|_| workload.mode != Mode::Bake);
    let plan = recipe.and_then(|recipe| planning::plan(recipe, workload.mode, class));
    let Some(plan) = plan.filter(planning::is_reasonable) else {
        return true;
    };
    let settings = ReplaySettings {
        limit: Some(Bytes::from_mib(limit.mib() * MARGIN)),
        expandable_segments: recipe.is_some_and(|recipe| recipe.expandable_segments),
        alive_at_peak: false,
    };
    run(&stream(&plan), settings).wanted.is_none()
}

/// Changes that leave every computed number as it is: offload without the weights, the cache emptied before the
/// adapters are made, state paged to the host; one by one and then together.
fn free_changes(workload: &Workload, recipe: &Recipe) -> Vec<Change> {
    let names = recipe.memory_fixes.iter().cloned();
    let with = |added: &str| {
        let all: Vec<String> = names.clone().chain([added.to_owned()]).collect();
        json!(all)
    };
    let mut changes = Vec::new();
    if recipe.has_fix("save_on_cpu") && !recipe.has_fix("save_on_cpu_skips_weights") {
        let fixes = with("save_on_cpu_skips_weights");
        changes.push(Change::new(
            "offload without the weights",
            "memory_fixes",
            fixes.clone(),
        ));
        if workload.mode == Mode::Train && recipe.optimizer == Optimizer::Adamw8bit {
            let mut both = Change::new(
                "offload without the weights, paged optimizer state",
                "memory_fixes",
                fixes,
            );
            both.settings
                .insert("optimizer".to_owned(), json!("paged_adamw_8bit"));
            changes.push(both);
        }
    }
    if recipe.quant.is_kbit() && !recipe.has_fix("cache_emptied_before_adapters") {
        let fixes = with("cache_emptied_before_adapters");
        changes.push(Change::new(
            "cache emptied before the adapters",
            "memory_fixes",
            fixes,
        ));
    }
    changes
}

fn optimizers(workload: &Workload, recipe: &Recipe) -> Vec<Change> {
    let paged = Change::new(
        "paged optimizer state",
        "optimizer",
        json!("paged_adamw_8bit"),
    );
    let eight = Change::new("8-bit optimizer state", "optimizer", json!("adamw_8bit"));
    match (workload.mode, recipe.optimizer) {
        (Mode::Train, Optimizer::Adamw8bit) => vec![paged],
        (Mode::Train, Optimizer::Adamw) => vec![eight, paged],
        _ => Vec::new(),
    }
}

fn no_dropout(recipe: &Recipe) -> Vec<Change> {
    let change = recipe
        .dropout
        .then(|| Change::new("no dropout", "dropout", json!(0.0)));
    change.into_iter().collect()
}

fn no_dora(recipe: &Recipe) -> Vec<Change> {
    let change = recipe
        .dora
        .then(|| Change::new("no DoRA", "dora", json!(false)));
    change.into_iter().collect()
}

/// Ranks in steps of eight, the nearest first: fit is not monotonic in the rank, so each is asked.
fn ranks(recipe: &Recipe) -> Vec<Change> {
    let near = (1..recipe.rank.div_ceil(8))
        .rev()
        .map(|eighth| eighth * 8)
        .take(64);
    let last = near.clone().last().unwrap_or(0);
    // From far above, in halves: the exact largest one is not worth a thousand rehearsals.
    let far = (1..16)
        .map(|halves| (last >> halves) / 8 * 8)
        .take_while(|rank| *rank >= 8);
    let words = |rank| format!("rank {rank} instead of {}", recipe.rank);
    near.chain(far)
        .map(|rank| Change::new(words(rank), "rank", json!(rank)))
        .collect()
}

fn quants(recipe: &Recipe) -> Vec<Change> {
    let change =
        (!recipe.quant.is_kbit()).then(|| Change::new("nf4 weights", "quant", json!("nf4")));
    change.into_iter().collect()
}

/// Shorter examples, in sixteenths of the length, down to a quarter.
fn lengths(recipe: &Recipe) -> Vec<Change> {
    let Some(full) = recipe.seq_len else {
        return Vec::new();
    };
    let shorter = (4..16)
        .rev()
        .map(|part| full * part / 16 / 8 * 8)
        .filter(|length| *length > 0);
    let words = |length| format!("{length} tokens instead of {full}");
    shorter
        .map(|length| Change::new(words(length), "seq_len", json!(length)))
        .collect()
}
