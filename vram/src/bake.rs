//! An evaluation's memory: the resident model, its KV cache for a context, and compute buffers, on one card or split
//! over several. Attention layers with a sliding window cache no more than the window.
//! What does not fit the cards lands on the CPU and runs several times slower (F22): that is said, not hidden.

use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::recipe::{Quant, Recipe};
use crate::{Bytes, Mark, Term};

/// Compute buffers of a llama.cpp runner beside weights and cache: graph and output buffers of one batch of 512 rows.
/// The resident figures of the seeds (gemma4:12b 7,601 MiB, qwen3.5:9b 5,642, router Q8_0 4.4 GB) leave 0.2 to 0.5 GiB.
const COMPUTE: u64 = 512 << 20;
/// llama.cpp pads the cache to multiples of 256 positions.
const CACHE_STEP: u64 = 256;

/// How the cache's keys and values are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheQuant {
    #[default]
    F16,
    /// 34 bytes for 32 values.
    Q8,
    /// 18 bytes for 32 values.
    Q4,
}

impl CacheQuant {
    fn bytes(self, values: u64) -> u64 {
        match self {
            Self::F16 => values.saturating_mul(2),
            Self::Q8 => values.div_ceil(32).saturating_mul(34),
            Self::Q4 => values.div_ceil(32).saturating_mul(18),
        }
    }
}

/// Keys and values of a context over all layers.
#[must_use]
pub fn kv_cache(architecture: &Architecture, context_len: u64, quant: CacheQuant) -> Bytes {
    let rows = |limit: u64| {
        context_len
            .min(limit)
            .div_ceil(CACHE_STEP)
            .saturating_mul(CACHE_STEP)
    };
    let all = (0..architecture.layers).map(|layer| {
        let rows = match architecture.sliding_window {
            Some(window) if architecture.is_sliding(layer) => rows(window + CACHE_STEP),
            _ => rows(u64::MAX),
        };
        quant.bytes(rows.saturating_mul(2 * architecture.kv_width()))
    });
    Bytes(all.fold(0, u64::saturating_add))
}

/// A resident model: `file` is the size of a GGUF, which is loaded as it is.
#[must_use]
pub fn resident(file: Bytes, cache: Bytes) -> Vec<Term> {
    vec![
        term("weights", file.0),
        term("kv cache", cache.0),
        term("compute buffers", COMPUTE),
    ]
}

/// Where a model lands that is split over cards by whole layers, each card with buffers of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Bytes on each card, in their order.
    pub cards: Vec<Bytes>,
    /// What is left for the CPU; above zero the run offloads, several times slower.
    pub on_cpu: Bytes,
}

impl Split {
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.on_cpu > Bytes::ZERO
    }
}

/// Layers go to cards in proportion to their room, as llama.cpp splits them; what finds no room goes to the CPU.
#[must_use]
pub fn split(weights: Bytes, cache: Bytes, layers: u64, rooms: &[Bytes]) -> Split {
    let layers = layers.max(1);
    let layer = (weights.0 + cache.0).div_ceil(layers);
    let free: Vec<u64> = rooms
        .iter()
        .map(|room| room.0.saturating_sub(COMPUTE))
        .collect();
    let total: u64 = free.iter().sum();
    let mut left = layers;
    let mut cards = Vec::with_capacity(rooms.len());
    for (at, free) in free.iter().enumerate() {
        let share = if at + 1 == rooms.len() {
            left
        } else {
            (u128::from(layers) * u128::from(*free))
                .checked_div(u128::from(total))
                .unwrap_or(0) as u64
        };
        let taken = share.min(free.checked_div(layer).unwrap_or(0)).min(left);
        left -= taken;
        let used = taken * layer;
        cards.push(Bytes(if taken > 0 { used + COMPUTE } else { 0 }));
    }
    Split {
        cards,
        on_cpu: Bytes(left * layer),
    }
}

/// The terms of a bake of a Hugging Face model: its weights as loaded, its cache, its buffers.
pub(crate) fn terms(recipe: &Recipe, context_len: u64) -> Option<Vec<Term>> {
    let architecture = recipe.architecture()?;
    let weights = weights(architecture, recipe.quant);
    let cache = kv_cache(architecture, context_len, CacheQuant::F16);
    let rows: u64 = architecture.hidden + architecture.q_width() + architecture.kv_width();
    let adapters = 4 * recipe
        .rank
        .saturating_mul(architecture.layers)
        .saturating_mul(2 * rows + 3 * architecture.intermediate);
    let mut terms = resident(weights, cache);
    terms.insert(1, term("adapters", adapters));
    Some(terms)
}

/// Linear layers in the recipe's type, all else in half precision.
fn weights(architecture: &Architecture, quant: Quant) -> Bytes {
    let linear = architecture.linear_parameters();
    let linear = match quant {
        // Half a byte, a byte of scale for 64, a float for 256 of those (double quantisation).
        Quant::Nf4 | Quant::Fp4 => linear / 2 + linear / 64 + linear / 4096,
        Quant::Int8 => linear,
        Quant::Bf16 | Quant::Fp16 => linear * 2,
        Quant::Fp32 => linear * 4,
    };
    let embedding = architecture.embedding_parameters() * 2;
    let vision = architecture.vision.map_or(0, |vision| {
        let block = vision.hidden * (4 * vision.hidden + 2 * vision.intermediate);
        block * vision.layers * if quant.is_kbit() { 1 } else { 2 }
    });
    Bytes(linear + embedding + vision)
}

fn term(name: &str, bytes: u64) -> Term {
    Term {
        name: name.to_owned(),
        bytes: Bytes(bytes),
        mark: Mark::Computed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known_model;

    #[test]
    fn the_router_in_q8_is_as_large_as_it_was_measured() {
        // GGUF of 4.14 GB, 4.4 GB resident at the 9,216 tokens it is served with (seeds: inference_footprint, F26).
        let gemma = known_model("gemma-3-4b-it").unwrap();
        let cache = kv_cache(gemma, 9216, CacheQuant::F16);
        let total: Bytes = resident(Bytes(4_140_000_000), cache)
            .iter()
            .map(|term| term.bytes)
            .sum();
        let measured = 4.4e9;
        assert!((total.0 as f64 / measured - 1.0).abs() < 0.15, "{total}");
    }

    #[test]
    fn a_sliding_layer_caches_its_window_only() {
        let gemma = known_model("gemma-3-4b-it").unwrap();
        let (short, long) = (
            kv_cache(gemma, 8192, CacheQuant::F16),
            kv_cache(gemma, 131_072, CacheQuant::F16),
        );
        // Of 34 layers 5 see everything: sixteen times the context is far from sixteen times the cache.
        assert!(long.0 < 14 * short.0);
        assert!(kv_cache(gemma, 8192, CacheQuant::Q8) < short);
    }

    #[test]
    fn a_27b_model_of_15_gb_needs_more_than_one_16_gb_card() {
        // The rig: 26.9 GB at 131,072 tokens; one card offloads, three hold it.
        let (weights, cache) = (Bytes(15_180_000_000), Bytes(10_500_000_000));
        let card = Bytes::from_mib(15.5 * 1024.0);
        let one = split(weights, cache, 64, &[card]);
        assert!(one.offloads());
        let three = split(weights, cache, 64, &[card; 3]);
        assert!(!three.offloads(), "{three:?}");
        let total: Bytes = three.cards.iter().copied().sum();
        assert!((total.mib() / 26_940.0 - 1.0).abs() < 0.06, "{total}");
    }
}
