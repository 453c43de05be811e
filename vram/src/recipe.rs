//! A training recipe as the memory model reads it: every setting that memory depends on, typed and with its default.
//! Settings that memory does not depend on (seed, learning rate, epochs, alpha, rsLoRA, dataset) are not looked at.
//! Refuses a value of the wrong type or an unknown name; it never puts a default in its place.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

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
            "bf16" | "none" => Self::Bf16,
            "fp16" => Self::Fp16,
            "fp32" => Self::Fp32,
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
    Adamw8bit,
    PagedAdamw8bit,
    PagedAdamw32bit,
    Sgd,
}

impl Optimizer {
    pub(crate) fn read(name: &str) -> Option<Self> {
        Some(match name {
            "adamw" | "adamw_torch" | "adamw_torch_fused" | "adamw_32bit" => Self::Adamw,
            "adamw_8bit" | "adamw8bit" | "adamw_bnb_8bit" => Self::Adamw8bit,
            "paged_adamw_8bit" | "paged_adamw8bit" => Self::PagedAdamw8bit,
            "paged_adamw_32bit" | "paged_adamw" | "paged_adamw32bit" => Self::PagedAdamw32bit,
            "sgd" => Self::Sgd,
            _ => return None,
        })
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

/// The memory fixes by name, as a sweep file lists them.
pub const MEMORY_FIXES: [&str; 4] = [
    "chunked_mlp",
    "save_on_cpu",
    "bf16_lm_head",
    "logits_to_keep",
];

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
}

impl Recipe {
    /// `None` for a program of its own: its sweep names no model.
    pub fn read(settings: &Settings) -> Result<Option<Self>, RecipeError> {
        let read = Reader::new(settings);
        let Some(model) = read.text("model")? else {
            return Ok(None);
        };
        let targets = read.names("targets")?.unwrap_or_else(|| {
            let all = ALL_LINEAR.into_iter();
            all.map(String::from).collect()
        });
        let memory_fixes = read.names("memory_fixes")?.unwrap_or_default();
        if let Some(unknown) = memory_fixes
            .iter()
            .find(|name| !MEMORY_FIXES.contains(&name.as_str()))
        {
            let message = format!(
                "unknown fix `{unknown}`; known: {}",
                MEMORY_FIXES.join(", ")
            );
            return Err(RecipeError::new("memory_fixes", message));
        }
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
            memory_fixes,
            optimizer: read
                .named("optimizer", Optimizer::read)?
                .unwrap_or(Optimizer::Adamw),
        }))
    }

    #[must_use]
    pub fn has_fix(&self, name: &str) -> bool {
        self.memory_fixes.contains(name)
    }

    #[must_use]
    pub fn has_all_fixes(&self) -> bool {
        MEMORY_FIXES.iter().all(|name| self.has_fix(name))
    }
}
