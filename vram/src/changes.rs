//! Changes to a recipe that need less memory, smallest first: those that leave what the training computes as it is, and
//! those that make it another training. Says nothing of whether one is enough.

use serde_json::{Value, json};

use crate::recipe::{FURTHER_FIXES, MEMORY_FIXES, Optimizer, Recipe};
use crate::{Backend, DeviceClass, Mode, Settings, Workload};

/// One changed setting or more.
pub(crate) struct Change {
    pub words: String,
    pub settings: Settings,
    /// The training computes the same numbers, up to rounding.
    pub keeps_arithmetic: bool,
}

impl Change {
    fn keeping(words: impl Into<String>, key: &str, value: Value) -> Self {
        Self {
            words: words.into(),
            settings: Settings::from([(key.to_owned(), value)]),
            keeps_arithmetic: true,
        }
    }

    fn other(words: impl Into<String>, key: &str, value: Value) -> Self {
        Self {
            keeps_arithmetic: false,
            ..Self::keeping(words, key, value)
        }
    }

    /// Both at once; lists of fixes are joined.
    fn and(&self, more: &Self) -> Self {
        let mut settings = self.settings.clone();
        for (key, value) in &more.settings {
            let joined = match (settings.get(key), value) {
                (Some(Value::Array(have)), Value::Array(added)) => {
                    let new = added.iter().filter(|one| !have.contains(one)).cloned();
                    Value::Array(have.iter().cloned().chain(new).collect())
                }
                _ => value.clone(),
            };
            settings.insert(key.clone(), joined);
        }
        Self {
            words: format!("{}, {}", self.words, more.words),
            settings,
            keeps_arithmetic: self.keeps_arithmetic && more.keeps_arithmetic,
        }
    }
}

/// Kinds of change in the order in which they are tried; of each kind the smallest that fits is wanted.
pub(crate) fn kinds(workload: &Workload, recipe: &Recipe, class: &DeviceClass) -> Vec<Vec<Change>> {
    let single = keeping(workload, recipe, class);
    let joined = joined(&single);
    vec![
        single,
        joined,
        half_head(recipe),
        eight_bit(workload, recipe),
        no_dropout(recipe),
        ranks(recipe),
        no_dora(recipe),
        quants(recipe),
        lengths(recipe),
        batches(recipe),
    ]
}

/// Where no change of one kind is enough: all that leave the arithmetic alone, 4-bit weights, and a smaller rank on top.
pub(crate) fn together(workload: &Workload, recipe: &Recipe, class: &DeviceClass) -> Vec<Change> {
    let mut all = keeping(workload, recipe, class);
    all.extend(half_head(recipe));
    all.extend(quants(recipe));
    let Some(base) = all.into_iter().reduce(|one, more| one.and(&more)) else {
        return Vec::new();
    };
    let with_rank = ranks(recipe).into_iter().map(|smaller| base.and(&smaller));
    let with_rank: Vec<Change> = with_rank.collect();
    std::iter::once(base).chain(with_rank).collect()
}

/// Each by itself, the least intrusive first.
fn keeping(workload: &Workload, recipe: &Recipe, class: &DeviceClass) -> Vec<Change> {
    let mut changes = Vec::new();
    let fix = |name: &str, words: &str| {
        let names = recipe.memory_fixes.iter().map(String::as_str);
        let all: Vec<&str> = names.chain([name]).collect();
        Change::keeping(words, "memory_fixes", json!(all))
    };
    if recipe.quant.is_kbit() && !recipe.has_fix("cache_emptied_before_adapters") {
        changes.push(fix(
            "cache_emptied_before_adapters",
            "cache emptied before the adapters",
        ));
    }
    if recipe.has_fix("save_on_cpu") && !recipe.has_fix("save_on_cpu_skips_weights") {
        changes.push(fix(
            "save_on_cpu_skips_weights",
            "offload without the weights",
        ));
    }
    if workload.mode == Mode::Train && recipe.optimizer == Optimizer::Adamw8bit {
        changes.push(Change::keeping(
            "paged optimizer state",
            "optimizer",
            json!("paged_adamw_8bit"),
        ));
    }
    // Expandable segments exist for CUDA on Linux (memory-model 2.7).
    if class.backend == Backend::Cuda && class.os == "linux" && !recipe.expandable_segments {
        changes.push(Change::keeping(
            "expandable segments",
            "expandable_segments",
            json!(true),
        ));
    }
    let missing = MEMORY_FIXES
        .into_iter()
        .filter(|name| !recipe.has_fix(name));
    for name in missing.filter(|name| *name != HALF_HEAD) {
        changes.push(fix(name, &format!("memory fix {name}")));
    }
    let loss = FURTHER_FIXES.iter().find(|name| **name == "chunked_loss");
    if let Some(name) = loss.filter(|name| !recipe.has_fix(name)) {
        changes.push(fix(name, "loss in chunks"));
    }
    if let Some(tokens) = recipe
        .mlp_chunk
        .map(|tokens| tokens / 2)
        .filter(|half| *half >= 128)
    {
        let words = format!("MLP in chunks of {tokens} tokens");
        changes.push(Change::keeping(words, "mlp_chunk_tokens", json!(tokens)));
    }
    changes
}

/// The first two together, the first three, and so on.
fn joined(single: &[Change]) -> Vec<Change> {
    let mut all = Vec::new();
    let mut sum: Option<Change> = None;
    for change in single {
        let next = match &sum {
            None => Change {
                words: change.words.clone(),
                settings: change.settings.clone(),
                keeps_arithmetic: true,
            },
            Some(sum) => sum.and(change),
        };
        if sum.is_some() {
            all.push(Change {
                words: next.words.clone(),
                settings: next.settings.clone(),
                keeps_arithmetic: true,
            });
        }
        sum = Some(next);
    }
    all
}

/// Rounds the embedding: of a gemma with random weights the second loss moved by 0.5 % (docs/rehearsal.md).
const HALF_HEAD: &str = "bf16_lm_head";

fn half_head(recipe: &Recipe) -> Vec<Change> {
    if !recipe.quant.is_kbit() || recipe.has_fix(HALF_HEAD) {
        return Vec::new();
    }
    let names = recipe.memory_fixes.iter().map(String::as_str);
    let all: Vec<&str> = names.chain([HALF_HEAD]).collect();
    let words = "embedding and head in half precision";
    vec![Change::other(words, "memory_fixes", json!(all))]
}

fn eight_bit(workload: &Workload, recipe: &Recipe) -> Vec<Change> {
    let named = |words: &str, name: &str| Change::other(words, "optimizer", json!(name));
    match (workload.mode, recipe.optimizer) {
        (Mode::Train, Optimizer::Adamw | Optimizer::AdamwFused) => vec![
            named("8-bit optimizer state", "adamw_8bit"),
            named("paged 8-bit optimizer state", "paged_adamw_8bit"),
        ],
        _ => Vec::new(),
    }
}

fn no_dropout(recipe: &Recipe) -> Vec<Change> {
    let change = recipe
        .dropout
        .then(|| Change::other("no dropout", "dropout", json!(0.0)));
    change.into_iter().collect()
}

fn no_dora(recipe: &Recipe) -> Vec<Change> {
    let change = recipe
        .dora
        .then(|| Change::other("no DoRA", "dora", json!(false)));
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
        .map(|rank| Change::other(words(rank), "rank", json!(rank)))
        .collect()
}

fn quants(recipe: &Recipe) -> Vec<Change> {
    let change =
        (!recipe.quant.is_kbit()).then(|| Change::other("nf4 weights", "quant", json!("nf4")));
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
        .map(|length| Change::other(words(length), "seq_len", json!(length)))
        .collect()
}

/// Fewer examples at a time, down to one.
fn batches(recipe: &Recipe) -> Vec<Change> {
    let halves = (1..16).map(|times| recipe.batch >> times);
    let fewer = halves.take_while(|batch| *batch >= 1);
    let words = |batch| format!("{batch} examples at a time instead of {}", recipe.batch);
    fewer
        .map(|batch| Change::other(words(batch), "batch", json!(batch)))
        .collect()
}
