//! What a simulation is told: the card that it plays, and the job's configuration as every program gets it.
//! Reads and types; refuses a device that is not marked simulated.

use serde::Deserialize;
use vram::{Backend, Bytes, DeviceClass, DeviceLoad, Settings};

/// The content of `$SWEEP_SIMULATE`.
#[derive(Clone, Debug, Deserialize)]
pub struct Card {
    pub device: Device,
    pub host: String,
    pub os: String,
    /// Simulated seconds per real second.
    pub time_scale: f64,
    /// The program that this stands in for.
    #[serde(default)]
    pub argv: Vec<String>,
}

/// The granted device, named as in the agent's registration.
#[derive(Clone, Debug, Deserialize)]
pub struct Device {
    pub id: String,
    pub name: String,
    pub backend: Backend,
    pub usable_bytes: u64,
    #[serde(default)]
    pub held_bytes: u64,
    #[serde(default)]
    pub spills: bool,
    #[serde(default)]
    pub simulated: bool,
    /// Steps per second against the RX 7900 XTX; 0 when not known.
    #[serde(default)]
    pub speed: f64,
}

/// What a simulation reads of `$SWEEP_CONFIG`.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub kind: jobs::Kind,
    #[serde(default)]
    pub seed: u64,
    /// Counts from 1.
    #[serde(default)]
    pub attempt: u32,
    /// The trial's merged settings.
    #[serde(default)]
    pub params: Settings,
    /// The stage's own keys: passes, cases, guards.
    #[serde(default)]
    pub stage: Option<Settings>,
}

impl Card {
    pub fn parse(text: &str) -> Result<Self, String> {
        let card: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !card.device.simulated {
            return Err(format!(
                "device `{}` is not marked simulated",
                card.device.id
            ));
        }
        if !(card.time_scale.is_finite() && card.time_scale > 0.0) {
            return Err("time_scale must be above 0".to_owned());
        }
        Ok(card)
    }

    /// The class of the real card that this one stands for.
    #[must_use]
    pub fn class(&self) -> DeviceClass {
        DeviceClass {
            name: self.device.name.clone(),
            backend: self.device.backend,
            os: self.os.clone(),
            spills: self.device.spills,
            simulated: true,
        }
    }

    #[must_use]
    pub fn load(&self) -> DeviceLoad {
        DeviceLoad {
            usable: Bytes(self.device.usable_bytes),
            held: Bytes(self.device.held_bytes),
        }
    }
}

impl Config {
    #[must_use]
    pub fn mode(&self) -> vram::Mode {
        self.kind.mode(&self.params, self.stage.as_ref())
    }

    /// A number among the trial's settings.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.params.get(name).and_then(serde_json::Value::as_f64)
    }

    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(serde_json::Value::as_str)
    }

    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        let value = self.params.get(name);
        value.and_then(serde_json::Value::as_bool).unwrap_or(false)
    }

    /// A key of the stage.
    #[must_use]
    pub fn of_stage(&self, name: &str) -> Option<&serde_json::Value> {
        self.stage.as_ref()?.get(name)
    }
}

#[cfg(test)]
pub(super) mod examples {
    use serde_json::{Value, json};

    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    fn card(name: &str, backend: Backend, os: &str, usable: f64, held: u64) -> Card {
        Card {
            device: Device {
                id: "sim-0".to_owned(),
                name: name.to_owned(),
                backend,
                usable_bytes: usable as u64,
                held_bytes: held << 20,
                spills: os == "windows",
                simulated: true,
                speed: 0.0,
            },
            host: "h".to_owned(),
            os: os.to_owned(),
            time_scale: 3600.0,
            argv: vec!["python3".to_owned(), "train.py".to_owned()],
        }
    }

    pub fn rtx_3070_ti() -> Card {
        card(
            "NVIDIA GeForce RTX 3070 Ti",
            Backend::Cuda,
            "linux",
            7.65 * GIB,
            0,
        )
    }

    pub fn rtx_3060_ti() -> Card {
        card(
            "NVIDIA GeForce RTX 3060 Ti",
            Backend::Cuda,
            "linux",
            7.66 * GIB,
            563,
        )
    }

    pub fn rx_7900_xtx() -> Card {
        card(
            "AMD Radeon RX 7900 XTX",
            Backend::Rocm,
            "windows",
            24_560.0 * 1_048_576.0,
            0,
        )
    }

    pub fn rtx_5060_ti() -> Card {
        card(
            "NVIDIA GeForce RTX 5060 Ti",
            Backend::Cuda,
            "linux",
            15.5 * GIB,
            0,
        )
    }

    /// The shipped sweeps' recipe, with `changes` on top; probed as the recorded rows were.
    pub fn config(kind: jobs::Kind, changes: &Value) -> Config {
        let mut params = json!({
            "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.0, "seq_len": 7177,
            "response_len": 237, "optimizer": "adamw_8bit", "epochs": 3,
            "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        serde_json::from_value(json!({
            "kind": kind, "seed": 7, "attempt": 1, "params": params,
            "stage": {"step": "one-step", "passes": 3, "cases": "cases-1131.jsonl", "guards": "guards-174.jsonl"},
        }))
        .unwrap()
    }
}
