//! The settings that a sweep with a `[model]` may have, one line for each: its name, where it belongs, what it may be.
//! Knows nothing of what a setting does to memory; that is `vram`'s, which accepts every word listed here.

/// Counts above this are absurd for any setting, and their products would leave 64 bits.
pub(crate) const MOST: i64 = 100_000_000;

/// Whole numbers up to this are exact in every reader of JSON.
pub(crate) const EXACT: i64 = (1 << 53) - 1;

/// No file of a model is larger: 16 TiB.
pub(crate) const MOST_BYTES: i64 = 1 << 44;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// A whole number from 1 to [`MOST`].
    Count,
    /// A whole number from 1 to [`MOST_BYTES`].
    Bytes,
    /// A whole number from 0 to [`EXACT`].
    Seed,
    /// A number of at least this.
    AtLeast(f64),
    /// A number above this.
    Above(f64),
    /// From 0 up to, but not, 1.
    Share,
    Flag,
    /// Text that is not empty.
    Name,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Names, each once.
    Names,
    /// These words, each once.
    SomeOf(&'static [&'static str]),
}

/// Where a setting is written when it is not an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Recipe,
    /// `[model]`, or `[recipe]` as well.
    Model,
}

pub(crate) struct Setting {
    pub name: &'static str,
    pub home: Home,
    pub rule: Rule,
}

const fn recipe(name: &'static str, rule: Rule) -> Setting {
    Setting {
        name,
        home: Home::Recipe,
        rule,
    }
}

const fn model(name: &'static str, rule: Rule) -> Setting {
    Setting {
        name,
        home: Home::Model,
        rule,
    }
}

const QUANTS: &[&str] = &["nf4", "fp4", "int8", "bf16", "fp16", "fp32"];

const OPTIMIZERS: &[&str] = &[
    "adamw_8bit",
    "paged_adamw_8bit",
    "adamw",
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_32bit",
    "paged_adamw_32bit",
    "sgd",
];

const MEMORY_FIXES: &[&str] = &[
    "chunked_mlp",
    "save_on_cpu",
    "bf16_lm_head",
    "logits_to_keep",
    "save_on_cpu_skips_weights",
    "cache_emptied_before_adapters",
    "chunked_loss",
];

const SCHEDULES: &[&str] = &[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "constant",
    "constant_with_warmup",
    "polynomial",
    "inverse_sqrt",
];

/// As llama.cpp and Ollama name them.
pub(crate) const KV_CACHES: &[&str] = &["f16", "q8_0", "q4_0"];

const ATTENTIONS: &[&str] = &["sdpa", "eager", "flash_attention_2"];

/// The most usual first: a message lists only the first dozen.
pub(crate) const SETTINGS: &[Setting] = &[
    recipe("rank", Rule::Count),
    recipe("alpha", Rule::Above(0.0)),
    recipe("dropout", Rule::Share),
    recipe("rslora", Rule::Flag),
    recipe("dora", Rule::Flag),
    recipe("targets", Rule::Names),
    recipe("seq_len", Rule::Count),
    recipe("response_len", Rule::Count),
    recipe("batch", Rule::Count),
    recipe("learning_rate", Rule::Above(0.0)),
    recipe("epochs", Rule::Above(0.0)),
    recipe("optimizer", Rule::OneOf(OPTIMIZERS)),
    recipe("memory_fixes", Rule::SomeOf(MEMORY_FIXES)),
    recipe("dataset", Rule::Name),
    recipe("steps", Rule::Count),
    recipe("grad_accumulation", Rule::Count),
    recipe("mlp_chunk_tokens", Rule::Count),
    recipe("loss_chunk_tokens", Rule::Count),
    recipe("expandable_segments", Rule::Flag),
    recipe("logits_freed_before_backward", Rule::Flag),
    recipe("context_len", Rule::Count),
    recipe("gguf_bytes", Rule::Bytes),
    recipe("kv_cache", Rule::OneOf(KV_CACHES)),
    recipe("parallel", Rule::Count),
    recipe("lr_schedule", Rule::OneOf(SCHEDULES)),
    recipe("warmup", Rule::AtLeast(0.0)),
    recipe("weight_decay", Rule::AtLeast(0.0)),
    recipe("neftune", Rule::AtLeast(0.0)),
    recipe("lora_plus", Rule::Above(0.0)),
    recipe("max_grad_norm", Rule::AtLeast(0.0)),
    recipe("gradient_checkpointing", Rule::Flag),
    recipe("attention", Rule::OneOf(ATTENTIONS)),
    recipe("autocast", Rule::Flag),
    recipe("packing", Rule::Flag),
    recipe("class_balanced", Rule::Flag),
    recipe("eval_every", Rule::Count),
    recipe("save_every", Rule::Count),
    recipe("adapter", Rule::Name),
    model("quant", Rule::OneOf(QUANTS)),
    model("double_quant", Rule::Flag),
    model("revision", Rule::Name),
];

/// Their names, for whoever takes settings elsewhere than from a sweep file.
pub fn setting_names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

pub(crate) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_setting_is_listed_once() {
        let names: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
    }

    /// What is accepted here must not be refused by the memory model after it was submitted.
    #[test]
    fn the_memory_model_accepts_every_word() {
        for setting in SETTINGS {
            let values: Vec<Value> = match setting.rule {
                Rule::Count => vec![json!(1), json!(MOST)],
                Rule::Bytes => vec![json!(1), json!(MOST_BYTES)],
                Rule::Seed => vec![json!(0)],
                Rule::AtLeast(low) => vec![json!(low)],
                Rule::Above(low) => vec![json!(low + 1e-5)],
                Rule::Share => vec![json!(0), json!(0.999)],
                Rule::Flag => vec![json!(true), json!(false)],
                Rule::Name => vec![json!("x")],
                Rule::OneOf(words) => words.iter().map(|word| json!(word)).collect(),
                Rule::Names => vec![json!(["x"])],
                Rule::SomeOf(words) => vec![json!(words), json!([])],
            };
            for value in values {
                let settings = vram::Settings::from([
                    ("model".to_owned(), json!("m")),
                    (setting.name.to_owned(), value),
                ]);
                let read = vram::Workload::new(vram::Mode::Train, &settings, None);
                assert!(read.is_ok(), "{settings:?}: {:?}", read.err());
            }
        }
    }
}
