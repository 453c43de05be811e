//! What is to run, as far as memory depends on it. Refuses settings that it cannot read; never guesses a default
//! for a value that was given but is wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The merged settings of a trial, by name: model, quant, rank, dropout, seq_len ...
pub type Settings = BTreeMap<String, serde_json::Value>;

/// What a job does with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A measured step: forward and backward on the longest example.
    Probe,
    /// A whole training run with its optimizer.
    Train,
    /// Evaluation: the model and its KV cache.
    Bake,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("setting `{key}`: {message}")]
pub struct RecipeError {
    pub key: String,
    pub message: String,
}

/// One piece of work whose memory is asked for. Two workloads with the same `key` need the same memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Canonical text of everything memory depends on, so that equal needs are found equal.
    pub key: String,
    pub mode: Mode,
    pub settings: Settings,
    /// `[place] memory` of the sweep file: the author's own word for a program that the model does not know.
    pub declared: Option<crate::Bytes>,
}

impl Workload {
    /// Reads a trial's settings. A sweep without `model` is a program of its own (`declared` or measured only).
    pub fn new(
        mode: Mode,
        settings: &Settings,
        declared: Option<crate::Bytes>,
    ) -> Result<Self, RecipeError> {
        let key = format!(
            "{mode:?} {}",
            serde_json::to_string(settings).unwrap_or_default()
        );
        Ok(Self {
            key,
            mode,
            settings: settings.clone(),
            declared,
        })
    }
}
