//! How a bake serves its model, in the words of llama.cpp and Ollama. Refuses a value that it cannot read.

use serde_json::{Value, json};

use super::CacheQuant;
use crate::setting::Reader;
use crate::{Bytes, RecipeError, Settings};

/// The settings of a bake that its memory depends on, beside the recipe's.
pub const SERVING_SETTINGS: [&str; 4] = ["context_len", "gguf_bytes", "kv_cache", "parallel"];

/// As many as `[place] gpus` may ask for.
const MOST_CARDS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Size of the GGUF. Without one the model is Hugging Face's and its weights are counted.
    pub gguf: Option<Bytes>,
    /// `--cache-type-k` and `--cache-type-v`, `OLLAMA_KV_CACHE_TYPE`.
    pub kv_cache: CacheQuant,
    /// `--parallel`, `OLLAMA_NUM_PARALLEL`: requests at once, each with a context of its own.
    pub parallel: u64,
    /// Equal cards that it is split over by whole layers: the setting `cards`, which `[place] gpus` fills in.
    pub cards: u64,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            gguf: None,
            kv_cache: CacheQuant::F16,
            parallel: 1,
            cards: 1,
        }
    }
}

impl Serving {
    pub(crate) fn read(settings: &Settings) -> Result<Self, RecipeError> {
        let read = Reader::new(settings);
        Ok(Self {
            gguf: read.bytes("gguf_bytes")?,
            kv_cache: read
                .named("kv_cache", CacheQuant::read)?
                .unwrap_or_default(),
            parallel: read.count("parallel")?.unwrap_or(1),
            cards: match read.count("cards")?.unwrap_or(1) {
                cards if cards <= MOST_CARDS => cards,
                cards => {
                    let message = format!("expected at most {MOST_CARDS}, found {cards}");
                    return Err(RecipeError::new("cards", message));
                }
            },
        })
    }

    /// Into the key of a workload. What is as usual is left out, so that the keys of older versions stay.
    pub(crate) fn into_key(self, key: &mut Value) {
        let usual = Self::default();
        if let Some(gguf) = self.gguf {
            key["gguf_bytes"] = json!(gguf);
        }
        if self.kv_cache != usual.kv_cache {
            key["kv_cache"] = json!(self.kv_cache);
        }
        if self.parallel != usual.parallel {
            key["parallel"] = json!(self.parallel);
        }
        if self.cards != usual.cards {
            key["cards"] = json!(self.cards);
        }
    }
}
