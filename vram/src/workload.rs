//! What is to run, as far as memory depends on it. Refuses settings that it cannot read; never guesses a default
//! for a value that was given but is wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::bake::Serving;
use crate::models;
use crate::recipe::Recipe;
use crate::setting::Reader;
use crate::{Backend, DeviceClass};

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

impl RecipeError {
    pub(crate) fn new(key: &str, message: String) -> Self {
        Self {
            key: key.to_owned(),
            message,
        }
    }
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
    /// The typed reading of the settings; absent for a program of its own.
    pub recipe: Option<Recipe>,
    /// Tokens that a bake keeps in its KV cache.
    pub context_len: Option<u64>,
    /// How a bake serves its model; nothing else looks at it.
    pub serving: Serving,
}

impl Workload {
    /// Reads a trial's settings. A sweep without `model` is a program of its own (`declared` or measured only).
    pub fn new(
        mode: Mode,
        settings: &Settings,
        declared: Option<crate::Bytes>,
    ) -> Result<Self, RecipeError> {
        let recipe = Recipe::read(settings)?;
        let read = Reader::new(settings);
        let context_len = match read.count("context_len")? {
            Some(given) => Some(given),
            None => recipe.as_ref().and_then(|recipe| recipe.seq_len),
        };
        let serving = Serving::read(settings)?;
        Ok(Self {
            key: key(mode, settings, recipe.as_ref(), context_len, serving),
            mode,
            settings: settings.clone(),
            declared,
            recipe,
            context_len,
            serving,
        })
    }

    /// Everything that memory depends on but the rank, and the rank: streams of two ranks scale to all others. `None`
    /// for a program of its own.
    #[must_use]
    pub fn family(&self) -> Option<(String, u64)> {
        crate::streams::family(self)
    }

    /// Whether it lands partly on the CPU where it does not fit: loaders of models put there what finds no room.
    #[must_use]
    pub fn offloads(&self, class: &DeviceClass) -> bool {
        self.mode == Mode::Bake && self.recipe.is_some() && class.backend != Backend::Cpu
    }
}

fn key(
    mode: Mode,
    settings: &Settings,
    recipe: Option<&Recipe>,
    context_len: Option<u64>,
    serving: Serving,
) -> String {
    let depends_on = match (recipe, mode) {
        // A program of its own may depend on anything; only its seed is known not to change its shapes.
        (None, _) => {
            let all = settings.iter().filter(|(name, _)| *name != "seed");
            Value::Object(
                all.map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        }
        (Some(recipe), Mode::Bake) => {
            let mut fields = json!({
                "model": model(recipe), "quant": recipe.quant, "rank": recipe.rank,
                "targets": recipe.targets, "context_len": context_len,
            });
            serving.into_key(&mut fields);
            fields
        }
        (Some(recipe), Mode::Probe | Mode::Train) => {
            let mut fields = json!(recipe);
            fields["model"] = model(recipe);
            fields["model_config"] = Value::Null;
            if mode == Mode::Probe {
                // A probe takes no optimizer step.
                fields["optimizer"] = Value::Null;
            }
            fields
        }
    };
    format!("{mode:?} {depends_on}")
}

/// What memory depends on of a model is its shape: one name for all that are alike, else the shape itself, else the
/// name that was given.
fn model(recipe: &Recipe) -> Value {
    match recipe.architecture() {
        Some(known) => models::name_of(known).map_or_else(|| json!(known), |name| json!(name)),
        None => json!(recipe.model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: Value) -> Settings {
        serde_json::from_value(value).unwrap()
    }

    fn key_of(value: Value) -> String {
        Workload::new(Mode::Train, &settings(value), None)
            .unwrap()
            .key
    }

    #[test]
    fn equal_needs_have_equal_keys() {
        let one = key_of(json!({
            "model": "m", "rank": 8, "dropout": 0.1, "seed": 1, "lr": 1e-4, "rslora": true, "alpha": 32, "epochs": 3,
        }));
        let two =
            key_of(json!({"model": "m", "rank": 8, "dropout": 0.2, "seed": 2, "dataset": "x"}));
        assert_eq!(one, two);
    }

    #[test]
    fn who_uploaded_a_model_does_not_matter() {
        let key = |model: &str| key_of(json!({"model": model, "rank": 8, "seq_len": 100}));
        let name = key("gemma-3-4b-it");
        assert_eq!(name, key("unsloth/gemma-3-4b-it-unsloth-bnb-4bit"));
        assert_eq!(name, key("google/gemma-3-4b-pt"));
        assert_ne!(name, key("google/gemma-3-1b-it"));
        assert_ne!(key("somebody/one"), key("somebody/other"));
    }

    #[test]
    fn what_memory_depends_on_is_in_the_key() {
        let base = json!({"model": "m", "rank": 8, "seq_len": 100});
        let changes = [
            ("rank", json!(9)),
            ("dropout", json!(0.1)),
            ("seq_len", json!(101)),
            ("quant", json!("nf4")),
            ("dora", json!(true)),
            ("optimizer", json!("adamw_8bit")),
            ("memory_fixes", json!(["save_on_cpu"])),
        ];
        for (name, value) in changes {
            let mut changed = base.clone();
            changed[name] = value;
            assert_ne!(key_of(base.clone()), key_of(changed), "{name}");
        }
    }

    #[test]
    fn a_program_of_its_own_keeps_all_its_settings_but_the_seed() {
        assert_eq!(
            key_of(json!({"a": 1, "seed": 1})),
            key_of(json!({"a": 1, "seed": 2}))
        );
        assert_ne!(key_of(json!({"a": 1})), key_of(json!({"a": 2})));
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_its_key() {
        let wrong = [
            ("rank", json!("112")),
            ("rank", json!(0)),
            ("rank", json!(-4)),
            ("dropout", json!(1.0)),
            ("dropout", json!("none")),
            ("dora", json!(1)),
            ("quant", json!("q4")),
            ("targets", json!([1])),
            ("memory_fixes", json!(["faster"])),
            ("optimizer", json!("lion")),
            ("seq_len", json!(1_000_000_000)),
            ("seq_len", json!(12.5)),
            ("model", json!(3)),
        ];
        for (name, value) in wrong {
            let mut given = json!({"model": "m"});
            given[name] = value.clone();
            let error = Workload::new(Mode::Train, &settings(given), None).unwrap_err();
            assert_eq!(error.key, name, "{value}");
        }
    }
}
