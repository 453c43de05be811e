//! What a rehearsal is of: the recipe in the memory model's words, and the key of everything that its stream depends
//! on. Pure.

use proto::store::v1::RehearsalRecord;
use sha2::{Digest, Sha256};
use vram::{Mode, Settings, Workload};

use super::WORKSPACE;
use crate::engine::submit::hex;

/// What was rehearsed, as the memory model knows it.
pub(super) fn workload_of(record: &RehearsalRecord) -> Option<Workload> {
    let settings: Settings = serde_json::from_str(&record.settings).ok()?;
    Workload::new(mode_of(&record.mode)?, &settings, None).ok()
}

pub(super) fn mode_of(word: &str) -> Option<Mode> {
    match word {
        "train" => Some(Mode::Train),
        "probe" => Some(Mode::Probe),
        _ => None,
    }
}

pub(super) fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Probe => "probe",
        Mode::Train | Mode::Bake => "train",
    }
}

/// Everything that a stream depends on.
pub(super) fn key(settings: &str, mode: Mode, stack: &str) -> String {
    let mut sum = Sha256::new();
    let workspace = WORKSPACE.0.to_string();
    for part in [settings, mode_word(mode), &workspace, stack] {
        sum.update(part.len().to_be_bytes());
        sum.update(part.as_bytes());
    }
    let mut key = hex(&sum.finalize());
    key.truncate(32);
    key
}

/// The recipe in the memory model's words, with the model's configuration, so that no host has to look for it.
pub(super) fn settings_of(workload: &Workload) -> Option<Settings> {
    let recipe = workload.recipe.as_ref()?;
    let given = workload.settings.get("model_config");
    let config = given.filter(|config| !config.is_null()).cloned();
    let config = config.or_else(|| vram::known_model_config(&recipe.model))?;
    let mut settings = recipe.settings();
    settings.insert("model_config".into(), config);
    Some(settings)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub fn workload(more: &serde_json::Value) -> Workload {
        let mut all =
            json!({"model": "unsloth/gemma-3-4b-it", "rank": 8, "seq_len": 512, "quant": "4bit"});
        for (name, value) in more.as_object().expect("an object") {
            all[name] = value.clone();
        }
        let settings = serde_json::from_value(all).expect("settings");
        Workload::new(Mode::Train, &settings, None).expect("a workload")
    }

    #[test]
    fn the_key_tells_apart_what_the_stream_depends_on_and_nothing_else() {
        let key_of = |more, stack| {
            let settings = serde_json::to_string(&settings_of(&workload(&more))).expect("text");
            key(&settings, Mode::Train, stack)
        };
        let base = key_of(json!({}), "torch 2.15");
        assert_eq!(base.len(), 32);
        assert_eq!(
            base,
            key_of(
                json!({"quant": "nf4", "learning_rate": 1e-4, "seed": 9}),
                "torch 2.15"
            )
        );
        assert_ne!(base, key_of(json!({}), "torch 2.16"));
        assert_ne!(base, key_of(json!({"rank": 9}), "torch 2.15"));
        assert_ne!(base, key_of(json!({"dropout": 0.1}), "torch 2.15"));
    }
}
