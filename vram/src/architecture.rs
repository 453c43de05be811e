//! The shape of a model, read from a Hugging Face `config.json`: every number that memory depends on.
//! Reads dense decoders of the llama, mistral, qwen, gemma, phi and smollm families; of mixtures of experts and unknown
//! families it counts the weights and says that their activations are not known. Refuses a field that is missing,
//! of the wrong type or beyond reason, and names it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::config::read_config;
use crate::fields::{Fields, shown};
use crate::hybrid::{self, KeyValueShape, LinearAttention};
use crate::pattern::Pattern;

/// A model's fields are small numbers; a file this long is no configuration.
pub const LONGEST_CONFIG: usize = 4 << 20;
/// Of any field. Those that are multiplied with others have bounds of their own: several times the largest published
/// model's, and their products stay within 64 bits.
pub(crate) const LARGEST: u64 = 1 << 24;
const WIDEST: u64 = 1 << 17;
const WIDEST_INNER: u64 = 1 << 20;
const MOST_HEADS: u64 = 1 << 12;
const MOST_LAYERS: u64 = 1000;
const MOST_EXPERTS: u64 = 1 << 14;
const LARGEST_IMAGE: u64 = 1 << 14;
/// A thousand times the parameters of the largest models there are.
const MOST_PARAMETERS: u64 = 1 << 50;

/// Stands for a field where an error is of none.
pub(crate) const WHOLE_FILE: &str = "(whole file)";

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("read field `{field}` of the model's configuration: {message}")]
pub struct ArchitectureError {
    pub field: String,
    pub message: String,
}

pub(crate) fn bad(field: &str, message: impl Into<String>) -> ArchitectureError {
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
    /// Width of the expert that every token passes besides.
    #[serde(default, skip_serializing_if = "hybrid::is_zero")]
    pub shared_intermediate: u64,
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
        Self::from_value(&read_config(config)?)
    }

    pub fn from_value(config: &Value) -> Result<Self, ArchitectureError> {
        if !config.is_object() {
            return Err(bad(WHOLE_FILE, "expected an object"));
        }
        let text = Fields::text(config)?;
        let (named, runs_alone) = family(config, &text)?;
        let hidden = text.count_to("hidden_size", WIDEST)?;
        let heads = match text.optional_to("num_attention_heads", MOST_HEADS)? {
            // What transformers assumes where the published file leaves it out.
            None if named == Family::Gemma3 => 8,
            heads => heads.ok_or_else(|| bad(&text.name("num_attention_heads"), "missing"))?,
        };
        let layers = text.count_to("num_hidden_layers", MOST_LAYERS)?;
        let (experts, expert_intermediate) = experts(&text)?;
        let pattern = Pattern::read(&text, named, layers)?;
        let vision = vision(config)?;
        let sees = vision.is_none() || named == Family::Gemma3;
        let known = experts <= 1 && pattern.is_regular && sees && runs_alone;
        let architecture = Self {
            family: if known { named } else { Family::Unknown },
            hidden,
            intermediate: text.count_to("intermediate_size", WIDEST_INNER)?,
            layers,
            heads,
            kv_heads: text
                .optional_to("num_key_value_heads", MOST_HEADS)?
                .unwrap_or(if named == Family::Gemma3 { 4 } else { heads }),
            head_dim: head_dim(&text, named, hidden, heads)?,
            vocab: text
                .optional("vocab_size")?
                .map_or_else(|| default_vocab(&text, named), Ok)?,
            tied: tied(config, &text, named)?,
            sliding_window: pattern.window,
            full_every: pattern.full_every,
            vision,
            experts,
            expert_intermediate,
            experts_used: hybrid::experts_used(&text, experts),
            shared_intermediate: if experts > 1 {
                shared(&text, expert_intermediate)?
            } else {
                0
            },
            mxfp4: hybrid::is_mxfp4(config),
            full_kv: hybrid::full_kv(&text)?,
            linear: hybrid::linear(&text)?,
        };
        architecture.checked(&text)
    }

    fn checked(self, text: &Fields<'_>) -> Result<Self, ArchitectureError> {
        let bad = |field: &str, message: String| Err(bad(&text.name(field), message));
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!(
                "{} does not divide {} attention heads",
                self.kv_heads, self.heads
            );
            return bad("num_key_value_heads", message);
        }
        let attention = (0..self.layers).map(|layer| self.attention_parameters(layer));
        let attention = attention.fold(0, u64::saturating_add);
        let beyond = "more parameters than any machine holds".to_owned();
        if attention > MOST_PARAMETERS {
            return bad("num_attention_heads", beyond);
        }
        if self.linear_parameters() > MOST_PARAMETERS {
            let field = if self.experts > 1 {
                "num_experts"
            } else {
                "intermediate_size"
            };
            return bad(field, beyond);
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
            let shared = (3 * self.shared_intermediate).saturating_mul(self.hidden);
            self.expert_parameters()
                .saturating_add(shared.saturating_mul(self.layers))
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

fn model_type<'a>(value: &'a Value, field: &str) -> Result<Option<&'a str>, ArchitectureError> {
    match value.get("model_type").filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(name) => Ok(Some(name)),
            None => Err(bad(
                field,
                format!("expected a name, found {}", shown(value)),
            )),
        },
    }
}

/// The decoder's family, and whether it runs as it does alone: inside something unknown it may not.
fn family(config: &Value, text: &Fields<'_>) -> Result<(Family, bool), ArchitectureError> {
    let outer = model_type(config, "model_type")?.map(family_named);
    let inner = model_type(text.text, &text.name("model_type"))?.map(family_named);
    // Tables that hold only the numbers are of plain decoders, the llama block or one that allocates as it does.
    let family = inner.or(outer).unwrap_or(Family::Llama);
    Ok((family, outer != Some(Family::Unknown)))
}

fn family_named(name: &str) -> Family {
    match name {
        "llama" | "mistral" | "smollm3" | "ministral" => Family::Llama,
        "qwen2" | "qwen2_5" => Family::Qwen2,
        "qwen3" => Family::Qwen3,
        "gemma2" => Family::Gemma2,
        "gemma3" | "gemma3_text" => Family::Gemma3,
        "phi3" => Family::Phi3,
        _ => Family::Unknown,
    }
}

fn head_dim(
    text: &Fields<'_>,
    family: Family,
    hidden: u64,
    heads: u64,
) -> Result<u64, ArchitectureError> {
    if let Some(given) = text.optional_to("head_dim", MOST_HEADS)? {
        return Ok(given);
    }
    match family {
        Family::Gemma2 | Family::Gemma3 => Ok(256),
        Family::Qwen3 => Ok(128),
        _ if hidden < heads => {
            let message = format!("{heads} heads are more than the hidden size {hidden}");
            Err(bad(&text.name("num_attention_heads"), message))
        }
        Family::Unknown => Ok(hidden / heads),
        _ if !hidden.is_multiple_of(heads) => {
            let message = format!(
                "{heads} does not divide the hidden size {hidden}, and there is no head_dim"
            );
            Err(bad(&text.name("num_attention_heads"), message))
        }
        _ => Ok(hidden / heads),
    }
}

fn experts(text: &Fields<'_>) -> Result<(u64, u64), ArchitectureError> {
    for field in ["num_experts", "num_local_experts", "n_routed_experts"] {
        // Dense models of a family that has mixtures say zero.
        if text
            .get(field)
            .is_some_and(|value| value.as_u64() == Some(0))
        {
            continue;
        }
        if let Some(experts) = text.optional_to(field, MOST_EXPERTS)? {
            let width = text.optional_to("moe_intermediate_size", WIDEST_INNER)?;
            let width =
                width.map_or_else(|| text.count_to("intermediate_size", WIDEST_INNER), Ok)?;
            return Ok((experts, width));
        }
    }
    Ok((1, 0))
}

/// Experts that are not chosen: their width as one, or how many of the others' width.
fn shared(text: &Fields<'_>, width: u64) -> Result<u64, ArchitectureError> {
    let none = |field: &str| {
        text.get(field)
            .is_some_and(|value| value.as_u64() == Some(0))
    };
    for (field, most, width) in [
        ("shared_expert_intermediate_size", WIDEST_INNER, 1),
        ("n_shared_experts", 64, width),
    ] {
        if !none(field)
            && let Some(count) = text.optional_to(field, most)?
        {
            return Ok(count * width);
        }
    }
    Ok(0)
}

fn default_vocab(text: &Fields<'_>, family: Family) -> Result<u64, ArchitectureError> {
    match family {
        // What transformers assumes where the published file leaves it out.
        Family::Gemma3 => Ok(262_208),
        Family::Gemma2 => Ok(256_000),
        _ => Err(bad(&text.name("vocab_size"), "missing")),
    }
}

fn tied(config: &Value, text: &Fields<'_>, family: Family) -> Result<bool, ArchitectureError> {
    let outer = config
        .get("tie_word_embeddings")
        .filter(|value| !value.is_null());
    match outer.or_else(|| text.get("tie_word_embeddings")) {
        None => Ok(family.is_gemma() || text.model_type() == Some("smollm3")),
        Some(Value::Bool(tied)) => Ok(*tied),
        Some(_) => Err(bad("tie_word_embeddings", "expected true or false")),
    }
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
    let image = fields.optional_to("image_size", LARGEST_IMAGE)?;
    let patch = fields.optional_to("patch_size", LARGEST_IMAGE)?;
    let (image, patch) = (image.unwrap_or(896), patch.unwrap_or(14));
    if patch > image {
        let message = format!("{patch} is more than the image size {image}");
        return Err(bad(&fields.name("patch_size"), message));
    }
    Ok(Some(Vision {
        hidden: fields.count_to("hidden_size", WIDEST)?,
        intermediate: fields.count_to("intermediate_size", WIDEST_INNER)?,
        layers: match fields.optional_to("depth", MOST_LAYERS)? {
            Some(depth) => depth,
            None => fields.count_to("num_hidden_layers", MOST_LAYERS)?,
        },
        image,
        patch,
    }))
}
