//! What a request keeps between tokens: keys and values of all layers, of a sliding layer only as far as its window
//! reaches, and the state of linear attention, which no context makes larger.

use serde::{Deserialize, Serialize};

use crate::Bytes;
use crate::architecture::Architecture;
use crate::hybrid::LinearAttention;

/// Tokens that are computed at once: `--ubatch-size`, Ollama's `num_batch`.
pub(super) const BATCH: u64 = 512;

/// The cache is padded to this many tokens (llama.cpp src/llama-kv-cache-iswa.cpp, `GGML_PAD(.., 256)`).
const PAD: u64 = 256;

/// How keys and values are held.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum CacheQuant {
    #[default]
    #[serde(rename = "f16")]
    F16,
    /// 34 bytes for 32 values.
    #[serde(rename = "q8_0")]
    Q8,
    /// 18 bytes for 32 values.
    #[serde(rename = "q4_0")]
    Q4,
}

impl CacheQuant {
    pub(super) fn read(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => Self::F16,
            "q8_0" => Self::Q8,
            "q4_0" => Self::Q4,
            _ => return None,
        })
    }

    fn bytes(self, values: u64) -> u64 {
        match self {
            Self::F16 => values.saturating_mul(2),
            Self::Q8 => values.div_ceil(32).saturating_mul(34),
            Self::Q4 => values.div_ceil(32).saturating_mul(18),
        }
    }
}

/// Keys and values of one request over all layers, as llama.cpp holds them.
#[must_use]
pub fn kv_cache(architecture: &Architecture, context_len: u64, quant: CacheQuant) -> Bytes {
    let layers = 0..architecture.layers;
    let each = layers.map(|layer| Bytes(layer_cache(architecture, layer, context_len, quant)));
    each.sum()
}

/// The states of one request over all layers of linear attention; nothing where there are none.
#[must_use]
pub fn recurrent_state(architecture: &Architecture) -> Bytes {
    let layers = 0..architecture.layers;
    layers
        .map(|layer| Bytes(layer_state(architecture, layer)))
        .sum()
}

pub(super) fn layer_cache(
    architecture: &Architecture,
    layer: u64,
    context_len: u64,
    quant: CacheQuant,
) -> u64 {
    if architecture.linear_attention(layer).is_some() {
        return 0;
    }
    let width = 2 * architecture.cached_width(layer);
    quant.bytes(cells(architecture, layer, context_len).saturating_mul(width))
}

/// Tokens that a layer has room for: all, or its window and one batch beside it (`size_swa`, same file).
pub(super) fn cells(architecture: &Architecture, layer: u64, context_len: u64) -> u64 {
    let seen = match architecture.sliding_window {
        Some(window) if architecture.is_sliding(layer) => context_len.min(window + BATCH),
        _ => context_len,
    };
    seen.div_ceil(PAD).saturating_mul(PAD)
}

pub(super) fn layer_state(architecture: &Architecture, layer: u64) -> u64 {
    architecture.linear_attention(layer).map_or(0, state)
}

/// In f32: the convolution's last tokens, and a matrix for each head (llama.cpp `n_embd_r`, `n_embd_s`; its logs say
/// 50.25 MiB for Qwen3.5-9B and 149.62 MiB for the 27B).
fn state(linear: LinearAttention) -> u64 {
    let convolution = (linear.kernel - 1).saturating_mul(linear.convolved());
    let matrices = linear.values().saturating_mul(linear.key_dim);
    convolution.saturating_add(matrices).saturating_mul(4)
}
