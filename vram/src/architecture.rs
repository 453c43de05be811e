//! The shape of a model, read from a Hugging Face `config.json`: every number that memory depends on.
//! Reads dense decoders of the llama, mistral, qwen, gemma, phi and smollm families; of mixtures of experts and unknown
//! families it counts the weights and says that their activations are not known. Refuses a field that is missing,
//! of the wrong type or beyond reason, and names it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::hybrid::{self, KeyValueShape, LinearAttention};

/// A model's fields are small numbers; a file this long is no configuration.
pub const LONGEST_CONFIG: usize = 4 << 20;
const LARGEST: u64 = 1 << 24;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("read field `{field}` of the model's configuration: {message}")]
pub struct ArchitectureError {
    pub field: String,
    pub message: String,
}

fn bad(field: &str, message: impl Into<String>) -> ArchitectureError {
    ArchitectureError {
        field: field.to_owned(),
        message: message.into(),
    }
}

/// What a family's decoder block does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    Llama,
    Qwen2,
    Qwen3,
    Gemma2,
    Gemma3,
    Phi3,
    /// Weights are counted, activations are not known.
    Unknown,
}

impl Family {
    /// Whether the activations of a step can be computed.
    #[must_use]
    pub fn is_known(self) -> bool {
        self != Self::Unknown
    }

    pub(crate) fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3)
    }
}

/// The vision tower of a model that has one. Text does not pass through it, but its weights and adapters are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Vision {
    pub hidden: u64,
    pub intermediate: u64,
    pub layers: u64,
    pub image: u64,
    pub patch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Architecture {
    pub family: Family,
    pub hidden: u64,
    pub intermediate: u64,
    pub layers: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub vocab: u64,
    /// The output matrix is the embedding.
    pub tied: bool,
    pub sliding_window: Option<u64>,
    /// One layer in so many attends to everything; the others within the window, or linearly. One where all do.
    pub full_every: u64,
    pub vision: Option<Vision>,
    /// Experts of each block; one where it is dense.
    pub experts: u64,
    pub expert_intermediate: u64,
    // The rest is of few models and left out of a key where it is not there, so that keys of older versions stay.
    /// Experts that one token passes; 0 where the file does not say.
    #[serde(default, skip_serializing_if = "hybrid::is_zero")]
    pub experts_used: u64,
    /// Experts come in MXFP4, 4.25 bits each (gpt-oss).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mxfp4: bool,
    /// Of the layers that attend to everything, where it is another than that of the sliding ones (gemma 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_kv: Option<KeyValueShape>,
    /// What the layers do that do not attend to everything (qwen 3.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear: Option<LinearAttention>,
}

impl Architecture {
    /// From the bytes of a `config.json`.
    pub fn read(config: &[u8]) -> Result<Self, ArchitectureError> {
        if config.len() > LONGEST_CONFIG {
            let most = LONGEST_CONFIG >> 20;
            return Err(bad(
                "(whole file)",
                format!("longer than {most} MiB: no configuration"),
            ));
        }
        let value = serde_json::from_slice(config)
            .map_err(|error| bad("(whole file)", format!("not JSON: {error}")))?;
        Self::from_value(&value)
    }

    pub fn from_value(config: &Value) -> Result<Self, ArchitectureError> {
        if !config.is_object() {
            return Err(bad("(whole file)", "expected an object"));
        }
        let text = Fields::text(config)?;
        let family = family(config, &text)?;
        let hidden = text.count("hidden_size")?;
        let heads = text.count("num_attention_heads")?;
        let head_dim = match text.optional("head_dim")? {
            Some(given) => given,
            None if family.is_gemma() => 256,
            None => hidden / heads,
        };
        if head_dim == 0 {
            return Err(bad("num_attention_heads", "more heads than hidden size"));
        }
        let (experts, expert_intermediate) = experts(&text)?;
        let architecture = Self {
            family: if experts > 1 { Family::Unknown } else { family },
            hidden,
            intermediate: text.count("intermediate_size")?,
            layers: text.count("num_hidden_layers")?,
            heads,
            kv_heads: text
                .optional("num_key_value_heads")?
                .unwrap_or(if family == Family::Gemma3 { 4 } else { heads }),
            head_dim,
            vocab: text
                .optional("vocab_size")?
                .map_or_else(|| default_vocab(family), Ok)?,
            tied: tied(config, &text, family)?,
            sliding_window: sliding_window(&text, family)?,
            full_every: full_every(&text, family)?,
            vision: vision(config)?,
            experts,
            expert_intermediate,
            experts_used: hybrid::experts_used(&text, experts),
            mxfp4: hybrid::is_mxfp4(config),
            full_kv: hybrid::full_kv(&text)?,
            linear: hybrid::linear(&text)?,
        };
        architecture.checked()
    }

    fn checked(self) -> Result<Self, ArchitectureError> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!(
                "{} does not divide {} attention heads",
                self.kv_heads, self.heads
            );
            return Err(bad("num_key_value_heads", message));
        }
        if self.layers > 1000 {
            return Err(bad(
                "num_hidden_layers",
                format!("{} layers are beyond reason", self.layers),
            ));
        }
        Ok(self)
    }

    #[must_use]
    pub fn q_width(&self) -> u64 {
        self.heads * self.head_dim
    }

    #[must_use]
    pub fn kv_width(&self) -> u64 {
        self.kv_heads * self.head_dim
    }

    /// Whether a layer attends within the sliding window only.
    #[must_use]
    pub fn is_sliding(&self, layer: u64) -> bool {
        self.sliding_window.is_some()
            && (self.full_every == 0 || !(layer + 1).is_multiple_of(self.full_every))
    }

    /// Text parameters of the linear layers of all blocks.
    #[must_use]
    pub fn linear_parameters(&self) -> u64 {
        let attention = (0..self.layers).map(|layer| self.attention_parameters(layer));
        let mlp = if self.experts > 1 {
            self.expert_parameters()
        } else {
            (3 * self.intermediate)
                .saturating_mul(self.hidden)
                .saturating_mul(self.layers)
        };
        attention.fold(mlp, u64::saturating_add)
    }

    /// The embedding, and the output matrix where it is another.
    #[must_use]
    pub fn embedding_parameters(&self) -> u64 {
        self.vocab * self.hidden * if self.tied { 1 } else { 2 }
    }
}

pub(crate) struct Fields<'a> {
    text: &'a Value,
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    fn text(config: &'a Value) -> Result<Self, ArchitectureError> {
        match config.get("text_config") {
            None | Some(Value::Null) => Ok(Self {
                text: config,
                prefix: "",
            }),
            Some(text) if text.is_object() => Ok(Self {
                text,
                prefix: "text_config.",
            }),
            Some(_) => Err(bad("text_config", "expected an object")),
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.text.get(field).filter(|value| !value.is_null())
    }

    fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    pub(crate) fn optional(&self, field: &str) -> Result<Option<u64>, ArchitectureError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_u64().filter(|count| (1..=LARGEST).contains(count)) {
            Some(count) => Ok(Some(count)),
            None => {
                let shown: String = value.to_string().chars().take(40).collect();
                let message = format!("expected a whole number from 1 to {LARGEST}, found {shown}");
                Err(bad(&self.name(field), message))
            }
        }
    }

    pub(crate) fn count(&self, field: &str) -> Result<u64, ArchitectureError> {
        self.optional(field)?
            .ok_or_else(|| bad(&self.name(field), "missing"))
    }
}

fn family(config: &Value, text: &Fields<'_>) -> Result<Family, ArchitectureError> {
    let Some(value) = text.get("model_type").or_else(|| config.get("model_type")) else {
        // Tables that hold only the numbers are of plain decoders, the llama block or one that allocates as it does.
        return Ok(Family::Llama);
    };
    let name = value
        .as_str()
        .ok_or_else(|| bad("model_type", "expected a name"))?;
    Ok(match name {
        "llama" | "mistral" | "smollm3" | "ministral" => Family::Llama,
        "qwen2" | "qwen2_5" => Family::Qwen2,
        "qwen3" => Family::Qwen3,
        "gemma2" => Family::Gemma2,
        "gemma3" | "gemma3_text" => Family::Gemma3,
        "phi3" => Family::Phi3,
        _ => Family::Unknown,
    })
}

fn experts(text: &Fields<'_>) -> Result<(u64, u64), ArchitectureError> {
    for field in ["num_experts", "num_local_experts", "n_routed_experts"] {
        if let Some(experts) = text.optional(field)? {
            let width = text.optional("moe_intermediate_size")?;
            let width = width.map_or_else(|| text.count("intermediate_size"), Ok)?;
            return Ok((experts, width));
        }
    }
    Ok((1, 0))
}

fn default_vocab(family: Family) -> Result<u64, ArchitectureError> {
    match family {
        // What transformers assumes where the published file leaves it out.
        Family::Gemma3 => Ok(262_208),
        Family::Gemma2 => Ok(256_000),
        _ => Err(bad("vocab_size", "missing")),
    }
}

fn tied(config: &Value, text: &Fields<'_>, family: Family) -> Result<bool, ArchitectureError> {
    let outer = config
        .get("tie_word_embeddings")
        .filter(|value| !value.is_null());
    match outer.or_else(|| text.get("tie_word_embeddings")) {
        None => Ok(family.is_gemma()),
        Some(Value::Bool(tied)) => Ok(*tied),
        Some(_) => Err(bad("tie_word_embeddings", "expected true or false")),
    }
}

fn sliding_window(text: &Fields<'_>, family: Family) -> Result<Option<u64>, ArchitectureError> {
    let used = match text.get("use_sliding_window") {
        None => !matches!(family, Family::Qwen2 | Family::Qwen3),
        Some(Value::Bool(used)) => *used,
        Some(_) => return Err(bad("use_sliding_window", "expected true or false")),
    };
    let window = text.optional("sliding_window")?;
    // Where the field is left out altogether, transformers gives mistral a window of 4,096; null means none.
    let is_mistral = text.get("model_type").and_then(Value::as_str) == Some("mistral");
    let left_out = is_mistral && text.text.get("sliding_window").is_none();
    Ok(if left_out {
        Some(4096)
    } else {
        window.filter(|_| used)
    })
}

fn full_every(text: &Fields<'_>, family: Family) -> Result<u64, ArchitectureError> {
    for field in ["sliding_window_pattern", "full_attention_interval"] {
        if let Some(given) = text.optional(field)? {
            return Ok(given);
        }
    }
    Ok(match family {
        Family::Gemma3 => 6,
        Family::Gemma2 => 2,
        Family::Unknown => hybrid::full_every(text),
        // Every layer slides.
        _ => 0,
    })
}

fn vision(config: &Value) -> Result<Option<Vision>, ArchitectureError> {
    let Some(value) = config.get("vision_config").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    if !value.is_object() {
        return Err(bad("vision_config", "expected an object"));
    }
    let fields = Fields {
        text: value,
        prefix: "vision_config.",
    };
    Ok(Some(Vision {
        hidden: fields.count("hidden_size")?,
        intermediate: fields.count("intermediate_size")?,
        layers: match fields.optional("depth")? {
            Some(depth) => depth,
            None => fields.count("num_hidden_layers")?,
        },
        image: fields.optional("image_size")?.unwrap_or(896),
        patch: fields.optional("patch_size")?.unwrap_or(14),
    }))
}
