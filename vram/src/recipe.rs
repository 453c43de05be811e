//! A training recipe as the memory model reads it: every setting that memory depends on, typed and with its default.
//! Settings that memory does not depend on (seed, learning rate, epochs, alpha, rsLoRA, dataset) are not looked at.
//! Refuses a value of the wrong type or an unknown name; it never puts a default in its place.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::architecture::Architecture;
use crate::models::known_model;
use crate::setting::Reader;
use crate::{RecipeError, Settings};

/// How the base weights are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quant {
    Nf4,
    Fp4,
    Int8,
    Bf16,
    Fp16,
    Fp32,
}

impl Quant {
    pub(crate) fn read(name: &str) -> Option<Self> {
        Some(match name {
            "nf4" | "4bit" => Self::Nf4,
            "fp4" => Self::Fp4,
            "int8" | "8bit" => Self::Int8,
            "bf16" | "bfloat16" | "none" => Self::Bf16,
            "fp16" | "float16" => Self::Fp16,
            "fp32" | "float32" => Self::Fp32,
            _ => return None,
        })
    }

    /// Weights that k-bit preparation treats: everything else of the model goes to fp32.
    #[must_use]
    pub fn is_kbit(self) -> bool {
        matches!(self, Self::Nf4 | Self::Fp4 | Self::Int8)
    }
}

/// What the optimizer keeps for each trained parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    Adamw,
    /// One kernel for all parameters: no list of their roots besides.
    AdamwFused,
    Adamw8bit,
    PagedAdamw8bit,
    PagedAdamw32bit,
    Sgd,
}

impl Optimizer {
    pub(crate) fn read(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "adamw" | "adamw_torch" | "adamw_32bit" | "adamw32bit" | "adamw_hf" => Self::Adamw,
            "adamw_torch_fused" | "adamw_fused" => Self::AdamwFused,
            "adamw_8bit" | "adamw8bit" | "adamw_bnb_8bit" => Self::Adamw8bit,
            "paged_adamw_8bit" | "paged_adamw8bit" => Self::PagedAdamw8bit,
            "paged_adamw_32bit" | "paged_adamw" | "paged_adamw32bit" => Self::PagedAdamw32bit,
            "sgd" => Self::Sgd,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Adamw => "adamw",
            Self::AdamwFused => "adamw_torch_fused",
            Self::Adamw8bit => "adamw_8bit",
            Self::PagedAdamw8bit => "paged_adamw_8bit",
            Self::PagedAdamw32bit => "paged_adamw_32bit",
            Self::Sgd => "sgd",
        }
    }
}

/// The linear layers that LoRA adapts when the sweep does not say.
pub const ALL_LINEAR: [&str; 7] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
];

/// The memory fixes of the program's own recipe by name, as a sweep file lists them.
pub const MEMORY_FIXES: [&str; 4] = [
    "chunked_mlp",
    "save_on_cpu",
    "bf16_lm_head",
    "logits_to_keep",
];

/// Fixes beyond those: none of them changes what the training computes (memory-model 6).
pub const FURTHER_FIXES: [&str; 3] = [
    // Offload that leaves the weights where they are.
    "save_on_cpu_skips_weights",
    // `empty_cache()` before the adapters are made.
    "cache_emptied_before_adapters",
    // Cross entropy over chunks of 256 tokens.
    "chunked_loss",
];

/// Tokens of a chunk of the MLP where the recipe does not say.
const MLP_CHUNK: u64 = 1024;
const LOSS_CHUNK: u64 = 256;

/// Any rate above zero costs the same.
const SOME_DROPOUT: f64 = 0.1;

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    Sdpa,
    Eager,
}

impl Attention {
    pub(crate) fn read(name: &str) -> Option<Self> {
        match name {
            "sdpa" | "flash_attention_2" => Some(Self::Sdpa),
            "eager" => Some(Self::Eager),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Recipe {
    pub model: String,
    pub quant: Quant,
    pub targets: BTreeSet<String>,
    pub rank: u64,
    /// Any rate above zero costs the same, so only whether there is one.
    pub dropout: bool,
    pub dora: bool,
    pub batch: u64,
    /// Absent when the sweep does not say: then nothing is known of the activations.
    pub seq_len: Option<u64>,
    pub response_len: Option<u64>,
    pub memory_fixes: BTreeSet<String>,
    pub optimizer: Optimizer,
    pub double_quant: bool,
    pub gradient_checkpointing: bool,
    pub attention: Attention,
    /// Given as such; else the trainer's way of the mode.
    pub autocast: Option<bool>,
    pub logits_freed: Option<bool>,
    pub mlp_chunk: Option<u64>,
    pub loss_chunk: Option<u64>,
    pub expandable_segments: bool,
    /// The model's `config.json`, where the sweep brings its own.
    pub model_config: Option<Box<Architecture>>,
}

impl Recipe {
    /// `None` for a program of its own: its sweep names no model.
    pub fn read(settings: &Settings) -> Result<Option<Self>, RecipeError> {
        let read = Reader::new(settings);
        let Some(model) = read.text("model")? else {
            return Ok(None);
        };
        let targets = targets(read.names("targets")?);
        let memory_fixes = read.names("memory_fixes")?.unwrap_or_default();
        known_fixes(&memory_fixes)?;
        let has = |name: &str| memory_fixes.contains(name);
        let mlp_chunk = read.count("mlp_chunk_tokens")?.unwrap_or(MLP_CHUNK);
        let loss_chunk = read.count("loss_chunk_tokens")?.unwrap_or(LOSS_CHUNK);
        Ok(Some(Self {
            model,
            quant: read.named("quant", Quant::read)?.unwrap_or(Quant::Bf16),
            targets,
            rank: read.count("rank")?.unwrap_or(16),
            dropout: read.share("dropout")?.unwrap_or(0.0) > 0.0,
            dora: read.flag("dora")?.unwrap_or(false),
            batch: read.count("batch")?.unwrap_or(1),
            seq_len: read.count("seq_len")?,
            response_len: read.count("response_len")?,
            double_quant: read.flag("double_quant")?.unwrap_or(true),
            gradient_checkpointing: read.flag("gradient_checkpointing")?.unwrap_or(true),
            attention: read
                .named("attention", Attention::read)?
                .unwrap_or(Attention::Sdpa),
            autocast: read.flag("autocast")?,
            logits_freed: read.flag("logits_freed_before_backward")?,
            mlp_chunk: has("chunked_mlp").then_some(mlp_chunk),
            loss_chunk: has("chunked_loss").then_some(loss_chunk),
            expandable_segments: read.flag("expandable_segments")?.unwrap_or(false),
            model_config: model_config(settings)?.map(Box::new),
            memory_fixes,
            optimizer: read
                .named("optimizer", Optimizer::read)?
                .unwrap_or(Optimizer::Adamw),
        }))
    }

    /// The recipe as settings again, in the plainest words: two recipes with equal needs give equal settings. Without
    /// the model's configuration, which is not kept as it was given.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut all = json!({
            "model": self.model, "quant": self.quant, "targets": self.targets, "rank": self.rank,
            "dropout": if self.dropout { SOME_DROPOUT } else { 0.0 },
            "dora": self.dora, "batch": self.batch, "seq_len": self.seq_len, "response_len": self.response_len,
            "memory_fixes": self.memory_fixes, "optimizer": self.optimizer.name(), "double_quant": self.double_quant,
            "gradient_checkpointing": self.gradient_checkpointing, "attention": self.attention,
            "autocast": self.autocast, "logits_freed_before_backward": self.logits_freed,
            "mlp_chunk_tokens": self.mlp_chunk, "loss_chunk_tokens": self.loss_chunk,
            "expandable_segments": self.expandable_segments.then_some(true),
        });
        let fields = all.as_object_mut().map(std::mem::take).unwrap_or_default();
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect()
    }

    #[must_use]
    pub fn has_fix(&self, name: &str) -> bool {
        self.memory_fixes.contains(name)
    }

    /// The model's shape: the sweep's own configuration, else the registry's.
    #[must_use]
    pub fn architecture(&self) -> Option<&Architecture> {
        self.model_config
            .as_deref()
            .or_else(|| known_model(&self.model))
    }

    #[must_use]
    pub fn has_all_fixes(&self) -> bool {
        MEMORY_FIXES.iter().all(|name| self.has_fix(name))
    }
}

/// The names that are adapted: all linear layers where nothing is said, or PEFT's word for them is.
pub(crate) fn targets(given: Option<BTreeSet<String>>) -> BTreeSet<String> {
    match given {
        Some(names) if !names.contains("all-linear") => names,
        _ => ALL_LINEAR.into_iter().map(String::from).collect(),
    }
}

fn known_fixes(names: &BTreeSet<String>) -> Result<(), RecipeError> {
    let known = || MEMORY_FIXES.into_iter().chain(FURTHER_FIXES);
    match names
        .iter()
        .find(|name| !known().any(|one| one == name.as_str()))
    {
        None => Ok(()),
        Some(unknown) => {
            let list = known().collect::<Vec<_>>().join(", ");
            let message = format!("unknown fix `{unknown}`; known: {list}");
            Err(RecipeError::new("memory_fixes", message))
        }
    }
}

fn model_config(settings: &Settings) -> Result<Option<Architecture>, RecipeError> {
    let Some(config) = settings
        .get("model_config")
        .filter(|value| !value.is_null())
    else {
        return Ok(None);
    };
    let read = Architecture::from_value(config);
    read.map(Some)
        .map_err(|error| RecipeError::new("model_config", error.to_string()))
}

#[cfg(test)]
mod tests;
