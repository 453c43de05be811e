//! Common models by name: the fields of their published `config.json` that memory depends on (data/models/).
//! Finds a name whoever uploaded it; refuses to guess at one that it does not have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::architecture::Architecture;

const FILES: [&str; 39] = [
    include_str!("../data/models/gemma-2-27b.json"),
    include_str!("../data/models/gemma-2-2b.json"),
    include_str!("../data/models/gemma-2-9b.json"),
    include_str!("../data/models/gemma-3-12b.json"),
    include_str!("../data/models/gemma-3-1b.json"),
    include_str!("../data/models/gemma-3-27b.json"),
    include_str!("../data/models/gemma-3-4b.json"),
    include_str!("../data/models/gemma-4-12b.json"),
    include_str!("../data/models/gpt-oss-20b.json"),
    include_str!("../data/models/llama-3.1-70b.json"),
    include_str!("../data/models/llama-3.1-8b.json"),
    include_str!("../data/models/llama-3.2-1b.json"),
    include_str!("../data/models/llama-3.2-3b.json"),
    include_str!("../data/models/mistral-7b-v0.1.json"),
    include_str!("../data/models/mistral-7b-v0.2.json"),
    include_str!("../data/models/mistral-7b.json"),
    include_str!("../data/models/mistral-nemo.json"),
    include_str!("../data/models/phi-3-mini-128k.json"),
    include_str!("../data/models/phi-3-mini.json"),
    include_str!("../data/models/phi-4-mini.json"),
    include_str!("../data/models/qwen2.5-0.5b.json"),
    include_str!("../data/models/qwen2.5-1.5b.json"),
    include_str!("../data/models/qwen2.5-14b.json"),
    include_str!("../data/models/qwen2.5-32b.json"),
    include_str!("../data/models/qwen2.5-3b.json"),
    include_str!("../data/models/qwen2.5-7b.json"),
    include_str!("../data/models/qwen3-0.6b.json"),
    include_str!("../data/models/qwen3-1.7b.json"),
    include_str!("../data/models/qwen3-14b.json"),
    include_str!("../data/models/qwen3-32b.json"),
    include_str!("../data/models/qwen3-4b.json"),
    include_str!("../data/models/qwen3-8b.json"),
    include_str!("../data/models/qwen3.5-27b.json"),
    include_str!("../data/models/qwen3.5-9b.json"),
    include_str!("../data/models/smollm2-1.7b.json"),
    include_str!("../data/models/smollm2-135m.json"),
    include_str!("../data/models/smollm2-360m.json"),
    include_str!("../data/models/smollm3-3b.json"),
    include_str!("../data/models/tinyllama-1.1b.json"),
];

#[derive(Deserialize)]
struct File {
    names: Vec<String>,
    config: serde_json::Value,
}

static BY_NAME: LazyLock<BTreeMap<String, Architecture>> = LazyLock::new(|| {
    let mut by_name = BTreeMap::new();
    for file in FILES
        .iter()
        .filter_map(|text| serde_json::from_str::<File>(text).ok())
    {
        if let Ok(architecture) = Architecture::from_value(&file.config) {
            for name in file.names {
                by_name.insert(name, architecture.clone());
            }
        }
    }
    by_name
});

/// `unsloth/gemma-3-4b-it`, `google/gemma-3-4b-it` and `gemma-3-4b-it-bnb-4bit` are one shape.
#[must_use]
pub fn known_model(name: &str) -> Option<&'static Architecture> {
    BY_NAME.get(&plain(name)?)
}

/// The `config.json` fields of a model that [`known_model`] finds, as its library reads them.
#[must_use]
pub fn known_model_config(name: &str) -> Option<serde_json::Value> {
    let plain = plain(name)?;
    BY_NAME.get(&plain)?;
    let files = FILES.iter();
    let mut read = files.filter_map(|text| serde_json::from_str::<File>(text).ok());
    let file = read.find(|file| file.names.contains(&plain))?;
    Some(file.config)
}

/// Without who uploaded it and how it was packed.
fn plain(name: &str) -> Option<String> {
    let last = name.rsplit('/').next()?.to_lowercase();
    let stripped = ["-unsloth-bnb-4bit", "-bnb-4bit", "-4bit", "-bf16"]
        .iter()
        .find_map(|end| last.strip_suffix(end));
    Some(stripped.unwrap_or(&last).to_owned())
}

/// One name for all models of this shape, whoever uploaded or tuned them.
pub(crate) fn name_of(architecture: &Architecture) -> Option<&'static str> {
    let same = BY_NAME.iter().find(|(_, known)| *known == architecture);
    same.map(|(name, _)| name.as_str())
}

/// The names that [`known_model`] finds.
pub fn known_models() -> impl Iterator<Item = &'static str> {
    BY_NAME.keys().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read() {
        let names: usize = FILES
            .iter()
            .map(|text| serde_json::from_str::<File>(text).unwrap().names.len())
            .sum();
        assert_eq!(known_models().count(), names);
    }

    #[test]
    fn who_uploaded_it_does_not_matter() {
        let one = known_model("unsloth/gemma-3-4b-it-unsloth-bnb-4bit");
        assert_eq!(one, known_model("google/gemma-3-4b-it"));
        assert!(one.is_some());
        assert!(known_model("somebody/else").is_none());
    }

    #[test]
    fn a_known_model_has_its_configuration() {
        for name in known_models() {
            let config = known_model_config(name).unwrap();
            assert_eq!(
                Architecture::from_value(&config).ok().as_ref(),
                known_model(name)
            );
        }
        assert!(known_model_config("somebody/else").is_none());
    }
}
