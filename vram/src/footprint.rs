//! A planned step's peaks, stage by stage and part by part, in two ways: from the whole stream, replayed through the
//! allocator's model; and from two short models of the same shape, since each stage's peak is a line in the number of
//! layers. The first is exact and takes tens of milliseconds, the second one or two and is off by the rounding to blocks.

mod short;
mod walk;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::step::{Plan, mask_bytes, needs_mask, stream};
use crate::tape::Part;
use short::{SHORT, Standing, extended};
use walk::Walk;

/// What the closed form says of one planned run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Footprint {
    pub after_load: u64,
    pub pre_step: u64,
    pub stages: Vec<Stage>,
}

/// The largest live bytes within one stage, by part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub name: &'static str,
    pub parts: BTreeMap<Part, u64>,
}

impl Stage {
    fn new(name: &'static str, live: walk::Live) -> Self {
        let parts = Part::ALL.into_iter().zip(live);
        Self {
            name,
            parts: parts.filter(|(_, bytes)| *bytes > 0).collect(),
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.parts
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl Footprint {
    /// The stage that decides; the first of equals.
    pub(crate) fn peak(&self) -> Option<&Stage> {
        let mut best: Option<&Stage> = None;
        for stage in &self.stages {
            if best.is_none_or(|best| stage.total() > best.total()) {
                best = Some(stage);
            }
        }
        best
    }
}

/// Plans asked for before: the same plan has the same footprint, so this changes nothing but the time it takes.
static SEEN: Mutex<BTreeMap<Plan, Arc<Footprint>>> = Mutex::new(BTreeMap::new());
const MOST_SEEN: usize = 4096;

/// The footprint of a plan, computed once.
pub(crate) fn footprint_of(plan: &Plan) -> Arc<Footprint> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen.get(plan) {
        return Arc::clone(known);
    }
    if seen.len() >= MOST_SEEN {
        seen.clear();
    }
    let made = Arc::new(footprint(plan));
    seen.insert(plan.clone(), Arc::clone(&made));
    made
}

pub(crate) fn footprint(plan: &Plan) -> Footprint {
    let arch = &plan.arch;
    let masks = [true, false].map(|slides| needs_mask(plan, slides));
    let both_kinds = arch.sliding_window.is_some() && (2..=arch.layers).contains(&arch.full_every);
    let patterned = both_kinds && masks.contains(&true);
    let mixed = patterned && masks.contains(&false);
    if arch.layers <= SHORT + 1 || (mixed && !plan.checkpointing) {
        return Walk::of(&stream(plan)).footprint();
    }
    if !patterned {
        return extended(plan, &Standing::of(arch.layers, |_| true));
    }
    if !mixed {
        // All layers cost the same, but the mask of those that attend to everything is there until the first of them
        // has run backward, which is the second layer of the short models.
        let mut short = plan.clone();
        short.arch.full_every = 2;
        let masked = |layer: u64| layer + 1 >= arch.full_every;
        let standing = Standing {
            first: true,
            freed_before_second: (arch.full_every > 2).then(|| mask_bytes(plan)),
            ..Standing::of(arch.layers, masked)
        };
        return extended(&short, &standing);
    }
    // Short models with layers of both kinds would differ in which kind comes last, and a line through them would count
    // that difference once a layer. What lives on between checkpointed layers is the same for both kinds, so each stage
    // is that of the kind which needs more, where layers of that kind stand.
    let mut sliding = plan.clone();
    sliding.arch.full_every = 0;
    let full = Plan {
        // The first layer slides in every pattern, and holds the mask until the end.
        full_from: Some(1),
        ..sliding.clone()
    };
    let is_sliding = |layer: u64| arch.is_sliding(layer);
    let sliding = extended(&sliding, &Standing::of(arch.layers, is_sliding));
    let full = extended(
        &full,
        &Standing::of(arch.layers, |layer| !is_sliding(layer)),
    );
    Footprint {
        stages: largest(sliding.stages.into_iter().chain(full.stages)),
        ..full
    }
}

/// The largest of each name, in the order of the names.
fn largest(stages: impl Iterator<Item = Stage>) -> Vec<Stage> {
    let mut by_place: BTreeMap<usize, Stage> = BTreeMap::new();
    for stage in stages {
        let names = NAMES.as_flattened().iter();
        let place = names.take_while(|name| **name != stage.name).count();
        let known = by_place.get(&place);
        if known.is_none_or(|known| stage.total() > known.total()) {
            by_place.insert(place, stage);
        }
    }
    by_place.into_values().collect()
}

/// Places of the names below.
const FORWARD: usize = 0;
const LOSS: usize = 1;
const LOSS_AND_BACKWARD: usize = 2;
const LAST_LAYER: usize = 3;
const FIRST_LAYER: usize = 4;
const OPTIMIZER: usize = 5;

/// Names of the stages of the first and of later steps: later ones have the optimizer's state. Without checkpoints the
/// loss and backward are one.
const NAMES: [[&str; 6]; 2] = [
    [
        "forward",
        "loss",
        "loss and backward",
        "backward, last layer",
        "backward, first layer",
        "optimizer",
    ],
    [
        "forward, later steps",
        "loss, later steps",
        "loss and backward, later steps",
        "backward, last layer, later steps",
        "backward, first layer, later steps",
        "optimizer, later steps",
    ],
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::{Value, json};

    use super::*;
    use crate::stream::Event;
    use crate::{Backend, DeviceClass, Mode, Row, Settings, Workload};

    /// The largest sum of blocks of the whole stream, from the step's beginning on.
    fn summed(plan: &Plan) -> u64 {
        let (mut sizes, mut total, mut top) = (Vec::new(), 0, 0);
        for event in &stream(plan).events {
            match *event {
                Event::Alloc { bytes, .. } => {
                    sizes.push(bytes.div_ceil(512) * 512);
                    total += bytes.div_ceil(512) * 512;
                }
                Event::Free { alloc } => total -= sizes[alloc as usize],
                Event::Mark(1) => top = 0,
                Event::Mark(_) | Event::EmptyCache => {}
            }
            top = top.max(total);
        }
        top
    }

    fn off(plan: &Plan) -> f64 {
        let said = footprint(plan).peak().map_or(0, Stage::total);
        (said as f64 / summed(plan) as f64 - 1.0).abs()
    }

    fn plan_of(config: &Value, recipe: &Value) -> Plan {
        let mut settings: Settings = serde_json::from_value(recipe.clone()).unwrap();
        settings.insert("model".to_owned(), json!("somebody/model"));
        settings.insert("model_config".to_owned(), config.clone());
        let work = Workload::new(Mode::Train, &settings, None).unwrap();
        let class = DeviceClass {
            name: "NVIDIA H200".to_owned(),
            backend: Backend::Cuda,
            os: "linux".to_owned(),
            spills: false,
            simulated: false,
        };
        crate::planning::plan(&work.recipe.unwrap(), Mode::Train, &class).unwrap()
    }

    fn config() -> impl Strategy<Value = Value> {
        let families = [
            "llama",
            "mistral",
            "qwen2",
            "qwen3",
            "gemma2",
            "gemma3_text",
            "gemma3",
            "phi3",
        ];
        let shape = (6u64..28, 1u64..9, 1u64..4, 1u64..5, 1u64..12, 1u64..64);
        let window = proptest::option::of(8u64..3000);
        (select(families.to_vec()), shape, window, any::<bool>()).prop_map(
            |(family, (layers, heads, groups, head, inter, vocab), window, tied)| {
                let text = json!({
                    "model_type": family, "hidden_size": heads * groups * 32 * head, "intermediate_size": inter * 256,
                    "num_hidden_layers": layers, "num_attention_heads": heads * groups, "num_key_value_heads": heads,
                    "head_dim": 32 * head, "vocab_size": vocab * 1000, "sliding_window": window,
                    "tie_word_embeddings": tied,
                });
                if family != "gemma3" {
                    return text;
                }
                json!({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 128,
                    "intermediate_size": 256, "num_hidden_layers": 2, "image_size": 56, "patch_size": 14}})
            },
        )
    }

    fn recipe() -> impl Strategy<Value = Value> {
        let fixes = [
            "chunked_mlp",
            "save_on_cpu",
            "bf16_lm_head",
            "logits_to_keep",
            "chunked_loss",
            "save_on_cpu_skips_weights",
        ];
        let quants = select(&["nf4", "int8", "bf16", "fp32"]);
        let optimizers = select(&["adamw", "adamw_8bit", "paged_adamw_32bit", "sgd"]);
        let attention = select(&["sdpa", "sdpa", "eager"]);
        let switches = (any::<bool>(), any::<bool>(), any::<bool>());
        let sizes = (1u64..4000, 1u64..80, 1u64..4);
        (
            subsequence(fixes.to_vec(), 0..=6),
            quants,
            optimizers,
            attention,
            switches,
            sizes,
        )
            .prop_map(
                |(fixes, quant, optimizer, attention, (checkpointing, dora, dropout), (seq, rank, batch))| {
                    json!({
                        "quant": quant, "rank": rank, "seq_len": seq, "batch": batch, "response_len": 1 + seq / 3,
                        "memory_fixes": fixes, "gradient_checkpointing": checkpointing, "attention": attention,
                        "dora": dora && quant == "nf4", "dropout": if dropout { 0.1 } else { 0.0 },
                        "mlp_chunk_tokens": 256, "optimizer": optimizer,
                        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
                            "qkv_proj", "gate_up_proj"],
                    })
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn two_short_models_say_what_the_whole_one_does(config in config(), recipe in recipe()) {
            let off = off(&plan_of(&config, &recipe));
            prop_assert!(off < 0.002, "{off}");
        }
    }

    #[test]
    fn the_shipped_tables_come_out_exactly() {
        let tables = [
            include_str!("../data/h200.jsonl"),
            include_str!("../data/h200-2.jsonl"),
            include_str!("../data/t4.jsonl"),
        ];
        for line in tables.into_iter().flat_map(str::lines) {
            let plan = serde_json::from_str::<Row>(line).unwrap().plan().unwrap();
            assert!(off(&plan) < 0.0001, "{line}");
        }
    }
}
