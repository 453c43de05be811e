//! One line of a table of measured steps, in the format that data/README.md of the project describes, as a plan.
//! A field that is absent or null is not known; one of the wrong type is an error that names it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::architecture::{Architecture, Family};
use crate::generation::generation;
use crate::models::known_model_config;
use crate::planning::{is_linear, is_understood, is_walked};
use crate::recipe::{Optimizer, Quant, targets};
use crate::setting::MOST;
use crate::step::{Held, Kernel, Plan};
use crate::tape::Dtype;

/// A list of names, or one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    Names(Vec<String>),
    One(String),
}

/// The fields that the model reads; a table may hold others.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub gpu: Option<String>,
    #[serde(default)]
    pub vendor: Option<String>,
    #[serde(default)]
    pub os: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    /// Absent: that of the model of this name, where the crate knows it.
    #[serde(default)]
    pub model_config: Value,
    /// Fewer layers than the model has.
    #[serde(default)]
    pub num_hidden_layers: Option<u64>,
    #[serde(default)]
    pub quant: Option<String>,
    #[serde(default)]
    pub double_quant: Option<bool>,
    #[serde(default)]
    pub base_dtype: Option<String>,
    #[serde(default)]
    pub rank: Option<u64>,
    #[serde(default)]
    pub targets: Option<Targets>,
    #[serde(default)]
    pub dropout: Option<f64>,
    #[serde(default)]
    pub dora: Option<bool>,
    #[serde(default)]
    pub batch: Option<u64>,
    #[serde(default)]
    pub seq_len: Option<u64>,
    #[serde(default)]
    pub response_len: Option<u64>,
    #[serde(default)]
    pub attention: Option<String>,
    #[serde(default)]
    pub optimizer_steps: Option<u64>,
    #[serde(default)]
    pub optimizer: Option<String>,
    #[serde(default)]
    pub gradient_checkpointing: Option<bool>,
    /// Absent: on where nothing switches it off, which is a model with a vision tower and no checkpointing: the flag of
    /// its outer configuration is not that of its language model.
    #[serde(default)]
    pub use_cache: Option<bool>,
    #[serde(default)]
    pub save_on_cpu: Option<bool>,
    #[serde(default)]
    pub save_on_cpu_skips_weights: Option<bool>,
    #[serde(default)]
    pub cache_emptied_before_adapters: Option<bool>,
    #[serde(default)]
    pub mlp_chunk_tokens: Option<u64>,
    #[serde(default)]
    pub bf16_lm_head: Option<bool>,
    #[serde(default)]
    pub logits_to_keep: Option<bool>,
    #[serde(default)]
    pub loss_chunk_tokens: Option<u64>,
    #[serde(default)]
    pub autocast: Option<bool>,
    #[serde(default)]
    pub logits_freed_before_backward: Option<bool>,
    /// What the program held while backward ran: `nothing`, `loss_input`, `response` or `outputs`. Absent: by the above.
    #[serde(default)]
    pub program_held: Option<String>,
    #[serde(default)]
    pub expandable_segments: Option<bool>,
    /// Simulated rows are predicted and never learned from.
    #[serde(default)]
    pub simulated: Option<bool>,
    #[serde(default)]
    pub limit_mib: Option<f64>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub oom_wanted_mib: Option<f64>,
    #[serde(default)]
    pub after_load_mib: Option<f64>,
    #[serde(default)]
    pub pre_step_mib: Option<f64>,
    #[serde(default)]
    pub forward_peak_mib: Option<f64>,
    #[serde(default)]
    pub backward_peak_mib: Option<f64>,
    #[serde(default)]
    pub peak_allocated_mib: Option<f64>,
    #[serde(default)]
    pub peak_reserved_mib: Option<f64>,
    #[serde(default)]
    pub optimizer_state_mib: Option<f64>,
}

/// The first field of a row that cannot be read by itself.
fn wrong_field(line: &str) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else {
        return None;
    };
    let mut wrong = fields.into_iter().filter(|(name, value)| {
        let alone = serde_json::json!({"model_config": null, name.as_str(): value});
        serde_json::from_value::<Row>(alone).is_err()
    });
    wrong.next().map(|(name, _)| name)
}

/// Nothing that was measured is larger than an exbibyte, or less than a byte and not nothing.
const MOST_MIB: f64 = (1_u64 << 40) as f64;
const LEAST_MIB: f64 = 1.0 / (1_u64 << 20) as f64;

impl Row {
    /// The modules that were adapted; all linear ones where the row does not say.
    #[must_use]
    pub fn target_names(&self) -> BTreeSet<String> {
        targets(self.targets.clone().map(|given| match given {
            Targets::Names(names) => names.into_iter().collect(),
            Targets::One(name) => [name].into(),
        }))
    }

    /// How it ended, whatever its letters.
    pub(crate) fn failed(&self) -> bool {
        self.status
            .as_deref()
            .is_some_and(|status| status.eq_ignore_ascii_case("oom"))
    }

    /// From one line of a table. An error names the field.
    pub(crate) fn read(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|bad| {
            let said = bad.to_string();
            let Some(field) = wrong_field(line) else {
                return said;
            };
            // Before the place, which ends such a message.
            let at = said.rfind(" at line ").unwrap_or(said.len());
            let (what, place) = said.split_at(at);
            format!("{what} (field `{field}`){place}")
        })
    }

    /// Refuses counts and measured numbers that cannot be, by their names.
    pub(crate) fn checked(&self) -> Result<(), String> {
        let counts = [
            ("rank", self.rank),
            ("batch", self.batch),
            ("seq_len", self.seq_len),
            ("response_len", self.response_len),
        ];
        for (name, count) in counts {
            if let Some(count) = count.filter(|count| !(1..=MOST).contains(count)) {
                return Err(format!("{name} is {count}, not from 1 to {MOST}"));
            }
        }
        if let Some(rate) = self.dropout.filter(|rate| !(0.0..1.0).contains(rate)) {
            return Err(format!("dropout is {rate}, not from 0 to below 1"));
        }
        let measured = [
            ("limit_mib", self.limit_mib),
            ("oom_wanted_mib", self.oom_wanted_mib),
            ("after_load_mib", self.after_load_mib),
            ("pre_step_mib", self.pre_step_mib),
            ("forward_peak_mib", self.forward_peak_mib),
            ("backward_peak_mib", self.backward_peak_mib),
            ("peak_allocated_mib", self.peak_allocated_mib),
            ("peak_reserved_mib", self.peak_reserved_mib),
            ("optimizer_state_mib", self.optimizer_state_mib),
        ];
        for (name, mib) in measured {
            let can_be = |mib: f64| mib == 0.0 || (LEAST_MIB..=MOST_MIB).contains(&mib);
            if let Some(mib) = mib.filter(|mib| !can_be(*mib)) {
                return Err(format!("{name} is {mib}, which no machine has"));
            }
        }
        Ok(())
    }

    /// The model's configuration as it was run.
    fn whole_config(&self) -> Result<Value, String> {
        let mut config = match (&self.model_config, &self.model) {
            (Value::Null, Some(name)) => known_model_config(name)
                .ok_or_else(|| format!("model_config is missing, and `{name}` is not known"))?,
            (Value::Null, None) => return Err("model_config is missing".to_owned()),
            (given, _) => given.clone(),
        };
        if let Some(layers) = self.num_hidden_layers {
            let text = match config.get("text_config") {
                Some(Value::Object(_)) => &mut config["text_config"],
                _ => &mut config,
            };
            if let Some(fields) = text.as_object_mut() {
                fields.insert("num_hidden_layers".to_owned(), layers.into());
                if let Some(Value::Array(kinds)) = fields.get_mut("layer_types") {
                    kinds.truncate(usize::try_from(layers).unwrap_or(usize::MAX));
                }
            }
        }
        Ok(config)
    }

    fn held(&self) -> Result<Held, String> {
        Ok(
            match (
                self.program_held.as_deref(),
                self.logits_freed_before_backward,
            ) {
                (Some("nothing"), _) | (None, Some(true)) => Held::Nothing,
                (Some("loss_input"), _) => Held::LossInput,
                (Some("response"), _) | (None, Some(false)) => Held::Response,
                // A table that does not say is of a plain loop, which keeps what the model gave it.
                (Some("outputs"), _) | (None, None) => Held::Outputs,
                (Some(other), _) => {
                    return Err(format!(
                        "program_held: unknown `{other}`; known: nothing, loss_input, response, outputs"
                    ));
                }
            },
        )
    }

    pub(crate) fn plan(&self) -> Result<Plan, String> {
        self.checked()?;
        let mut arch = Architecture::from_value(&self.whole_config()?)
            .map_err(|error| format!("model_config: {error}"))?;
        let half = match self.base_dtype.as_deref() {
            Some("fp16" | "float16") => Dtype::Fp16,
            _ => Dtype::Bf16,
        };
        let quant = match self.quant.as_deref() {
            None | Some("none") => match self.base_dtype.as_deref() {
                Some("fp32" | "float32") => Quant::Fp32,
                _ if half == Dtype::Fp16 => Quant::Fp16,
                _ => Quant::Bf16,
            },
            Some(name) => Quant::read(name).ok_or_else(|| format!("unknown quant `{name}`"))?,
        };
        let optimizer = match self.optimizer.as_deref() {
            None => Optimizer::Adamw,
            Some(name) => {
                Optimizer::read(name).ok_or_else(|| format!("unknown optimizer `{name}`"))?
            }
        };
        let seq = self.seq_len.ok_or("seq_len is missing")?;
        let generation = generation(
            self.gpu.as_deref().unwrap_or(""),
            self.vendor.as_deref().unwrap_or(""),
        );
        let (mut plain, mut masked) = generation.kernels();
        if self.attention.as_deref() == Some("eager") {
            (plain, masked) = (Kernel::Eager, Kernel::Eager);
        }
        let autocast = self.autocast.unwrap_or(false);
        let checkpointing = self.gradient_checkpointing.unwrap_or(false);
        let sees = arch.vision.is_some();
        if !autocast && quant.is_kbit() && plain == Kernel::Flash {
            plain = Kernel::Efficient;
        }
        let targets = self.target_names();
        if !targets.iter().all(|name| is_understood(name)) {
            arch.family = Family::Unknown;
        } else if self.rank.is_some() && !targets.iter().any(|name| is_linear(name)) {
            return Err("targets: none of them is a linear layer of the model".to_owned());
        }
        let plan = Plan {
            arch,
            quant,
            double_quant: self.double_quant.unwrap_or(true),
            half,
            targets,
            rank: self.rank.unwrap_or(0),
            dropout: self.dropout.unwrap_or(0.0) > 0.0,
            dora: self.dora.unwrap_or(false),
            batch: self.batch.unwrap_or(1),
            seq,
            response: self.response_len.unwrap_or(seq).min(seq),
            plain_kernel: plain,
            masked_kernel: masked,
            checkpointing,
            use_cache: !checkpointing && self.use_cache.unwrap_or(sees),
            save_on_cpu: self.save_on_cpu.unwrap_or(false),
            skips_weights: self.save_on_cpu_skips_weights.unwrap_or(false),
            chunk: self.mlp_chunk_tokens.filter(|chunk| *chunk > 0),
            bf16_lm_head: self.bf16_lm_head.unwrap_or(false),
            logits_to_keep: self.logits_to_keep.unwrap_or(false),
            chunked_loss: self.loss_chunk_tokens.filter(|chunk| *chunk > 0),
            autocast,
            held: self.held()?,
            optimizer,
            // A table that gives the optimizer's state beside the peaks measured a step that had it already.
            steps: match self.optimizer_steps.unwrap_or(0) {
                1 if self.optimizer_state_mib.is_some() => 2,
                steps => steps.min(2),
            },
            cache_emptied_before_adapters: self.cache_emptied_before_adapters.unwrap_or(false),
            workspace: generation.workspace(),
            full_from: None,
        };
        if is_walked(&plan) {
            Ok(plan)
        } else {
            Err("mlp_chunk_tokens: more chunks than are gone through".to_owned())
        }
    }
}
