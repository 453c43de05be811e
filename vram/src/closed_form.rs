//! Peak allocated memory of a LoRA training step of gemma-3-4b in closed form: terms of the shapes, two coefficients
//! fitted to the 22 cross-GPU probes without DoRA (data/seeds.json), residuals below 53 MiB.
//! Answers for that model only; for any other it says `None` rather than a number nobody measured.

use crate::recipe::{Optimizer, Quant, Recipe};
use crate::{Backend, Bytes, Mark, Mode, Term};

const MIB: f64 = crate::MIB as f64;
const HIDDEN: f64 = 2560.0;
const LAYERS: f64 = 34.0;
const VOCAB: f64 = 262_208.0;
/// Sum of the inputs of the seven adapted layers of one block: one byte of dropout mask for each and token.
const TARGET_INPUTS: f64 = 25_088.0;
/// MiB of fp32 adapters per rank, vision tower included, and of the language model alone (only it has gradients).
const ADAPTER_PER_RANK: f64 = 7.818;
const GRADIENT_PER_RANK: f64 = 7.105;
/// Fitted: bytes per token of one recomputed block without autocast (probe), per token squared of the masks.
const LAYER_PROBE: f64 = 274_269.0;
const MASKS: f64 = 4.463;
/// Bytes per token of one recomputed block under autocast (train), from real-v13: 6,653 MiB at rank 112.
const LAYER_TRAIN: f64 = 175_852.0;
/// Bytes per token that dropout cost real-v15 over the line of the runs without it: 272 MiB at 7,177.
const DROPOUT_TRAIN: f64 = 272.0 * MIB / 7177.0;

/// The models that the numbers above describe.
pub(crate) fn knows(recipe: &Recipe) -> bool {
    let name = recipe.model.rsplit('/').next().unwrap_or_default();
    matches!(
        name,
        "gemma-3-4b-it" | "gemma-3-4b-pt" | "gemma-3-4b-it-unsloth-bnb-4bit"
    ) && !matches!(recipe.quant, Quant::Int8 | Quant::Fp32)
        && recipe
            .targets
            .iter()
            .map(String::as_str)
            .collect::<std::collections::BTreeSet<_>>()
            == crate::recipe::ALL_LINEAR.into_iter().collect()
}

fn weights(recipe: &Recipe) -> f64 {
    match recipe.quant {
        Quant::Nf4 | Quant::Fp4 => 3079.8,
        _ => 8201.8,
    }
}

/// Terms in MiB that add up to the peak of the larger of the loss and the backward stage.
pub(crate) fn train_step(recipe: &Recipe, mode: Mode, backend: Backend) -> Option<Vec<Term>> {
    let seq = recipe.seq_len? as f64;
    let tokens = seq * recipe.batch as f64;
    let rank = recipe.rank as f64;
    let mut terms = vec![
        ("weights", weights(recipe)),
        ("adapters", ADAPTER_PER_RANK * rank),
    ];
    if recipe.quant.is_kbit() && !recipe.has_fix("bf16_lm_head") {
        // k-bit preparation left the embedding in fp32.
        terms.push(("fp32 embedding", 2.0 * VOCAB * HIDDEN / MIB));
    }
    if !recipe.has_fix("save_on_cpu") {
        let width = if recipe.quant.is_kbit() { 4.0 } else { 2.0 };
        terms.push(("checkpoints", width * LAYERS * tokens * HIDDEN / MIB));
    }
    if mode == Mode::Train {
        terms.push(("optimizer state", optimizer(recipe.optimizer) * rank));
    }
    let (loss, backward) = (
        loss(recipe, tokens),
        backward(recipe, mode, backend, seq, tokens),
    );
    let total = |stage: &[(&str, f64)]| stage.iter().map(|term| term.1).sum::<f64>();
    terms.extend(if total(&loss) > total(&backward) {
        loss
    } else {
        backward
    });
    Some(
        terms
            .into_iter()
            .map(|(name, mib)| term(name, mib))
            .collect(),
    )
}

fn optimizer(optimizer: Optimizer) -> f64 {
    let bytes_per_parameter = match optimizer {
        Optimizer::Adamw => 8.0,
        // Two one-byte moments and their scales per block of 256; memory-model 2.2.
        Optimizer::Adamw8bit => 2.031,
        Optimizer::Sgd | Optimizer::PagedAdamw8bit | Optimizer::PagedAdamw32bit => 0.0,
    };
    GRADIENT_PER_RANK / 4.0 * bytes_per_parameter
}

fn logits_tokens(recipe: &Recipe, tokens: f64) -> f64 {
    match recipe.response_len {
        Some(response) if recipe.has_fix("logits_to_keep") => {
            (response as f64 * recipe.batch as f64).min(tokens)
        }
        _ => tokens,
    }
}

fn loss(recipe: &Recipe, tokens: f64) -> Vec<(&'static str, f64)> {
    vec![
        // Four fp32 copies of the logits, memory-model 2.4.
        (
            "logits and loss",
            16.0 * logits_tokens(recipe, tokens) * VOCAB / MIB,
        ),
        ("hidden states", 12.0 * tokens * HIDDEN / MIB),
    ]
}

fn backward(
    recipe: &Recipe,
    mode: Mode,
    backend: Backend,
    seq: f64,
    tokens: f64,
) -> Vec<(&'static str, f64)> {
    let train = mode == Mode::Train;
    let (layer, rank_bytes) = if train {
        (LAYER_TRAIN, 14.0)
    } else {
        (LAYER_PROBE, 28.0)
    };
    let mut terms = vec![
        ("gradients", GRADIENT_PER_RANK * recipe.rank as f64),
        ("recomputed block", layer * tokens / MIB),
        (
            "adapter activations",
            rank_bytes * recipe.rank as f64 * tokens / MIB,
        ),
        (
            "attention masks",
            MASKS * seq * seq * recipe.batch as f64 / MIB,
        ),
    ];
    if !train {
        // The probe keeps its outputs alive through backward, the trainer does not.
        terms.push((
            "kept logits",
            4.0 * logits_tokens(recipe, tokens) * VOCAB / MIB,
        ));
    }
    match backend {
        Backend::Cuda => {
            terms.push(("blas workspace", 8.125));
            terms.push(("attention backward scratch", 4.0 * 2048.0 * tokens / MIB));
        }
        Backend::Rocm => terms.push(("blas workspace", 32.0)),
        Backend::Cpu => {}
    }
    if recipe.dropout {
        let per_token = if train { DROPOUT_TRAIN } else { TARGET_INPUTS };
        terms.push(("dropout masks", per_token * tokens / MIB));
    }
    if recipe.dora {
        // Of the 1,830 MiB measured at 7,177 tokens 1,220 grow with the tokens; memory-model 2.2.
        terms.push(("dora", 610.0 + 1220.0 * tokens / 7177.0));
    }
    terms
}

/// Weights, adapter and KV cache of an evaluation, and half a GiB of compute buffers.
pub(crate) fn bake(recipe: &Recipe, context_len: u64) -> Vec<Term> {
    // Keys and values of 4 heads of 256 in bf16, each layer: no credit for sliding windows.
    let cache = 2.0 * 4.0 * 256.0 * 2.0 * LAYERS * context_len as f64 / MIB;
    vec![
        term("weights", weights(recipe)),
        term("adapters", ADAPTER_PER_RANK * recipe.rank as f64),
        term("kv cache", cache),
        term("compute buffers", 512.0),
    ]
}

fn term(name: &str, mib: f64) -> Term {
    Term {
        name: name.to_owned(),
        bytes: Bytes::from_mib(mib),
        mark: Mark::Computed,
    }
}
