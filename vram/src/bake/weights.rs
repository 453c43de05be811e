//! The weights of a bake as loaded: a GGUF by its size, less what stays in the host's memory; a Hugging Face model by
//! its shape.

use super::Serving;
use crate::Bytes;
use crate::architecture::Architecture;
use crate::recipe::{Quant, Recipe};

/// What there is to put on cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    /// Of all blocks together.
    pub blocks: u64,
    /// The output matrix, which lands with the last blocks.
    pub output: u64,
    pub adapters: u64,
    /// Stays with the CPU whatever room there is: it is looked up, not multiplied.
    pub host: u64,
}

pub(super) fn weights(architecture: &Architecture, recipe: &Recipe, serving: &Serving) -> Weights {
    match serving.gguf {
        Some(file) => of_gguf(architecture, file),
        None => of_shape(architecture, recipe),
    }
}

/// A tied embedding is on the host and, as the output matrix, on a card as well. Adapters are merged or files of their
/// own.
fn of_gguf(architecture: &Architecture, file: Bytes) -> Weights {
    let embedding = embedding(architecture, file.0).min(file.0 / 2);
    let on_host = if architecture.tied { 0 } else { embedding };
    Weights {
        blocks: file.0 - embedding - on_host,
        output: embedding,
        adapters: 0,
        host: embedding,
    }
}

/// By the file's mean size of a weight. MXFP4 experts are 17 bytes for 32 in every file; the mean is of the others.
fn embedding(architecture: &Architecture, file: u64) -> u64 {
    let (mut bytes, mut parameters) = (file, parameters(architecture));
    if architecture.mxfp4 {
        let experts = architecture.expert_parameters();
        bytes = bytes.saturating_sub(experts / 32 * 17);
        parameters = parameters.saturating_sub(experts);
    }
    let one = architecture.vocab * architecture.hidden;
    let share = u128::from(bytes) * u128::from(one) / u128::from(parameters.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn parameters(architecture: &Architecture) -> u64 {
    let blocks = architecture.linear_parameters();
    blocks.saturating_add(architecture.embedding_parameters())
}

/// Linear layers in the recipe's type, all else in half precision.
fn of_shape(architecture: &Architecture, recipe: &Recipe) -> Weights {
    let linear = architecture.linear_parameters();
    let linear = match recipe.quant {
        // Half a byte, a byte of scale for 64, a float for 256 of those (double quantisation).
        Quant::Nf4 | Quant::Fp4 => linear / 2 + linear / 64 + linear / 4096,
        Quant::Int8 => linear,
        Quant::Bf16 | Quant::Fp16 => linear.saturating_mul(2),
        Quant::Fp32 => linear.saturating_mul(4),
    };
    let vision = architecture.vision.map_or(0, |vision| {
        let block = vision.hidden * (4 * vision.hidden + 2 * vision.intermediate);
        let each = if recipe.quant.is_kbit() { 1 } else { 2 };
        block.saturating_mul(vision.layers * each)
    });
    let embedding = architecture.embedding_parameters().saturating_mul(2);
    let output = architecture.vocab * architecture.hidden * 2;
    Weights {
        blocks: linear
            .saturating_add(vision)
            .saturating_add(embedding.saturating_sub(output)),
        output,
        adapters: adapters(architecture, recipe),
        host: 0,
    }
}

fn adapters(architecture: &Architecture, recipe: &Recipe) -> u64 {
    let sides = architecture.hidden + architecture.q_width() + architecture.kv_width();
    let layer = (2 * sides + 3 * architecture.intermediate).saturating_mul(recipe.rank);
    layer.saturating_mul(architecture.layers).saturating_mul(4)
}
