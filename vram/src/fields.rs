//! The fields of a configuration, or of the text model in it: counts within bounds, and errors that name the field.

use serde_json::Value;

use crate::architecture::{ArchitectureError, LARGEST, bad};

pub(crate) struct Fields<'a> {
    pub(crate) text: &'a Value,
    pub(crate) prefix: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn text(config: &'a Value) -> Result<Self, ArchitectureError> {
        match config.get("text_config") {
            None | Some(Value::Null) => Ok(Self {
                text: config,
                prefix: "",
            }),
            Some(text) if text.is_object() => Ok(Self {
                text,
                prefix: "text_config.",
            }),
            Some(_) => Err(bad("text_config", "expected an object")),
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.text.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field is there, be it null.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.text.get(field).is_some()
    }

    pub(crate) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }

    pub(crate) fn model_type(&self) -> Option<&'a str> {
        self.get("model_type").and_then(Value::as_str)
    }

    pub(crate) fn optional(&self, field: &str) -> Result<Option<u64>, ArchitectureError> {
        self.optional_to(field, LARGEST)
    }

    pub(crate) fn optional_to(
        &self,
        field: &str,
        most: u64,
    ) -> Result<Option<u64>, ArchitectureError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_u64().filter(|count| (1..=most).contains(count)) {
            Some(count) => Ok(Some(count)),
            None => {
                let message = format!(
                    "expected a whole number from 1 to {most}, found {}",
                    shown(value)
                );
                Err(bad(&self.name(field), message))
            }
        }
    }

    pub(crate) fn count(&self, field: &str) -> Result<u64, ArchitectureError> {
        self.count_to(field, LARGEST)
    }

    pub(crate) fn count_to(&self, field: &str, most: u64) -> Result<u64, ArchitectureError> {
        self.optional_to(field, most)?
            .ok_or_else(|| bad(&self.name(field), "missing"))
    }
}

/// A value in an error: the beginning of what may be megabytes.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.len() > 40 => {
            let start: String = text.chars().take(40).collect();
            format!("\"{start}...\"")
        }
        other => other.to_string(),
    }
}
