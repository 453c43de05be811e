//! The recipe of `sweep vram predict`: `--model`, `--config` and each `--set KEY=VALUE` as the settings that a sweep
//! file would give. Refuses a name that no recipe has; what a value may be is the memory model's to say.

use std::path::{Path, PathBuf};

use jobs::spec::{nearest_help, setting_names};
use serde_json::Value;
use vram::{LONGEST_CONFIG, Settings, read_config};

use super::input;
use crate::error::Error;

#[derive(Debug, clap::Args)]
pub struct Recipe {
    /// Model known by name, whoever uploaded it; `sweep vram models` lists them
    #[arg(long, value_name = "NAME", required_unless_present = "config")]
    pub model: Option<String>,
    /// Hugging Face config.json of the model
    #[arg(long, value_name = "CONFIG.json")]
    pub config: Option<PathBuf>,
    /// A setting of the recipe, as in a sweep file; may be repeated
    ///
    /// For example: --set rank=112 --set dropout=0.1 --set 'memory_fixes=["save_on_cpu"]'
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

impl Recipe {
    pub fn read(&self) -> Result<Settings, Error> {
        let mut settings = Settings::new();
        for given in &self.settings {
            let (key, value) = pair(given)?;
            if settings.insert(key.to_owned(), value).is_some() {
                return Err(Error::BadInput(format!("setting `{key}` is given twice")));
            }
        }
        settings.insert("model".to_owned(), Value::from(self.name()));
        if let Some(path) = &self.config {
            settings.insert("model_config".to_owned(), config(path)?);
        }
        Ok(settings)
    }

    /// As a sweep file that brings its own configuration calls the model.
    pub fn name(&self) -> String {
        let file = || {
            let path = self.config.as_deref().map(Path::to_string_lossy);
            path.unwrap_or_default().into_owned()
        };
        self.model.clone().unwrap_or_else(file)
    }
}

fn pair(given: &str) -> Result<(&str, Value), Error> {
    let (key, value) = given.split_once('=').ok_or_else(|| {
        Error::BadInput(format!("`{given}` is no setting; write it as KEY=VALUE"))
    })?;
    let key = key.trim();
    let instead = match key {
        "model" => Some("--model"),
        "model_config" => Some("--config"),
        _ => None,
    };
    if let Some(flag) = instead {
        return Err(Error::BadInput(format!(
            "setting `{key}`: give it with {flag}"
        )));
    }
    let known: Vec<&str> = setting_names().collect();
    // As in a sweep file, a setting of one's own begins so.
    if !known.contains(&key) && !key.starts_with("x_") {
        let help = nearest_help(key, &known);
        return Err(Error::BadInput(format!("unknown setting `{key}`; {help}")));
    }
    Ok((key, value_of(value.trim())))
}

/// As JSON or as TOML writes it; everything else is a bare word.
fn value_of(text: &str) -> Value {
    let word = || Value::from(text);
    // `null` would say that nothing was given.
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return if value.is_null() { word() } else { value };
    }
    let document = format!("value = {text}");
    let Ok(mut table) = toml::from_str::<toml::Table>(&document) else {
        return word();
    };
    match (table.remove("value"), table.is_empty()) {
        // A date is a dataset's name, and JSON has no infinity.
        (Some(toml::Value::Datetime(_)), _) => word(),
        (Some(toml::Value::Float(number)), _) if !number.is_finite() => word(),
        (Some(value), true) => serde_json::to_value(value).unwrap_or_else(|_| word()),
        _ => word(),
    }
}

fn config(path: &Path) -> Result<Value, Error> {
    let bytes = input::bytes(path, LONGEST_CONFIG as u64, "a model's config.json")?;
    read_config(&bytes).map_err(|error| Error::BadInput(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: &[&str]) -> Result<Settings, String> {
        let recipe = Recipe {
            model: Some("m".into()),
            config: None,
            settings: settings.iter().map(|text| (*text).to_owned()).collect(),
        };
        recipe.read().map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_json_or_toml_or_words() {
        for (text, value) in [
            ("112", json!(112)),
            ("0.1", json!(0.1)),
            ("1e-4", json!(1e-4)),
            ("1_024", json!(1024)),
            ("true", json!(true)),
            ("nf4", json!("nf4")),
            ("\"nf4\"", json!("nf4")),
            ("'nf4'", json!("nf4")),
            ("[\"a\", \"b\"]", json!(["a", "b"])),
            ("['a', 'b',]", json!(["a", "b"])),
            ("2026-09-21", json!("2026-09-21")),
            ("null", json!("null")),
            ("nan", json!("nan")),
            ("", json!("")),
            ("1\nrank = 2", json!("1\nrank = 2")),
        ] {
            assert_eq!(value_of(text), value, "{text}");
        }
    }

    #[test]
    fn names_are_checked() {
        let good = read(&[
            "rank=112",
            " dropout = 0.1",
            "x_note=a=b",
            "expandable_segments=true",
        ]);
        let wanted = json!({
            "model": "m", "rank": 112, "dropout": 0.1, "x_note": "a=b", "expandable_segments": true,
        });
        assert_eq!(json!(good.unwrap()), wanted);
        let error = |settings: &[&str]| read(settings).unwrap_err();
        assert_eq!(
            error(&["rnak=1"]),
            "unknown setting `rnak`; did you mean `rank`?"
        );
        assert_eq!(
            error(&["rank=1", "rank=2"]),
            "setting `rank` is given twice"
        );
        assert_eq!(error(&["model=x"]), "setting `model`: give it with --model");
        assert_eq!(
            error(&["rank"]),
            "`rank` is no setting; write it as KEY=VALUE"
        );
        assert!(error(&["=1"]).starts_with("unknown setting ``"));
    }
}
