//! What the layers of newer models do otherwise: keys and values of two shapes, linear attention with a state of fixed
//! size, experts. Read from the same `config.json`; memory depends on it in a bake only, as training is not known.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::architecture::{Architecture, ArchitectureError};
use crate::fields::Fields;

/// Keys and values of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyValueShape {
    pub heads: u64,
    pub head_dim: u64,
}

/// Layers that keep a state of fixed size instead of keys and values (gated delta net).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinearAttention {
    pub key_heads: u64,
    pub key_dim: u64,
    pub value_heads: u64,
    pub value_dim: u64,
    /// Tokens that its convolution sees.
    pub kernel: u64,
}

impl LinearAttention {
    /// Queries, keys and values of a token, which pass the convolution.
    #[must_use]
    pub fn convolved(&self) -> u64 {
        2 * self.key_heads * self.key_dim + self.values()
    }

    #[must_use]
    pub fn values(&self) -> u64 {
        self.value_heads * self.value_dim
    }
}

impl Architecture {
    /// Whether a layer keeps a state of fixed size and no keys and values.
    #[must_use]
    pub fn linear_attention(&self, layer: u64) -> Option<LinearAttention> {
        let is_full = self.full_every > 0 && (layer + 1).is_multiple_of(self.full_every);
        self.linear.filter(|_| !is_full)
    }

    /// Width of the keys, and of the values, that a layer caches for each token.
    #[must_use]
    pub fn cached_width(&self, layer: u64) -> u64 {
        match self.full_kv {
            Some(full) if !self.is_sliding(layer) => full.heads * full.head_dim,
            _ => self.kv_width(),
        }
    }

    pub(crate) fn attention_parameters(&self, layer: u64) -> u64 {
        let width = match (self.linear_attention(layer), self.linear) {
            // Queries, keys, values, the gate and the way out; a decay and a rate for each head.
            (Some(linear), _) => linear.convolved() + 2 * linear.values() + 2 * linear.value_heads,
            // Its full layers have a gate as wide as the queries.
            (None, Some(_)) => 3 * self.q_width() + 2 * self.kv_width(),
            (None, None) => 2 * self.q_width() + 2 * self.cached_width(layer),
        };
        self.hidden.saturating_mul(width)
    }

    /// Of all experts of all blocks.
    #[must_use]
    pub fn expert_parameters(&self) -> u64 {
        let one = (3 * self.expert_intermediate).saturating_mul(self.hidden);
        let block = if self.experts > 1 {
            one.saturating_mul(self.experts)
        } else {
            0
        };
        block.saturating_mul(self.layers)
    }
}

/// Not needed to count weights, so a file that says it in another way is read all the same.
pub(crate) fn experts_used(text: &Fields<'_>, experts: u64) -> u64 {
    ["num_experts_per_tok", "experts_per_token", "top_k_experts"]
        .into_iter()
        .find_map(|field| text.get(field)?.as_u64())
        .map_or(0, |used| used.min(experts))
}

pub(crate) fn is_mxfp4(config: &Value) -> bool {
    config["quantization_config"]["quant_method"].as_str() == Some("mxfp4")
}

pub(crate) fn full_kv(text: &Fields<'_>) -> Result<Option<KeyValueShape>, ArchitectureError> {
    let Some(head_dim) = text.optional("global_head_dim")? else {
        return Ok(None);
    };
    let heads = match text.optional("num_global_key_value_heads")? {
        Some(heads) => heads,
        None => text.count("num_key_value_heads")?,
    };
    Ok(Some(KeyValueShape { heads, head_dim }))
}

pub(crate) fn linear(text: &Fields<'_>) -> Result<Option<LinearAttention>, ArchitectureError> {
    let Some(value_heads) = text.optional("linear_num_value_heads")? else {
        return Ok(None);
    };
    Ok(Some(LinearAttention {
        key_heads: text.count("linear_num_key_heads")?,
        key_dim: text.count("linear_key_head_dim")?,
        value_heads,
        value_dim: text.count("linear_value_head_dim")?,
        kernel: text.count("linear_conv_kernel_dim")?,
    }))
}

/// The first layer that attends to everything tells how often one does.
pub(crate) fn full_every(text: &Fields<'_>) -> u64 {
    let types = text.get("layer_types").and_then(Value::as_array);
    let first = types.and_then(|types| types.iter().position(|one| one == "full_attention"));
    first.map_or(0, |at| at as u64 + 1)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
