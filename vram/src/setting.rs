//! Reads one setting at a time out of a trial's merged settings, with an error that names the key.
//! Knows types and bounds only, not what a setting means.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fields::shown;
use crate::{Bytes, RecipeError, Settings};

/// Counts above this are absurd for any of our settings, and their products would leave 64 bits.
pub(crate) const MOST: u64 = 100_000_000;

/// No file of a model is larger than 16 TiB.
pub(crate) const MOST_BYTES: u64 = 1 << 44;

pub(crate) struct Reader<'a> {
    settings: &'a Settings,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Self { settings }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.settings.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, RecipeError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(good) => Ok(Some(good)),
            None => Err(RecipeError::new(
                key,
                format!("expected {wanted}, found {}", shown(value)),
            )),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, RecipeError> {
        self.read(key, "a name", |value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(String::from)
        })
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, RecipeError> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A whole number from 1 to [`MOST`].
    pub(crate) fn count(&self, key: &str) -> Result<Option<u64>, RecipeError> {
        self.read(key, "a whole number from 1 to 100000000", |value| {
            value.as_u64().filter(|count| (1..=MOST).contains(count))
        })
    }

    /// A whole number from 1 to [`MOST_BYTES`].
    pub(crate) fn bytes(&self, key: &str) -> Result<Option<Bytes>, RecipeError> {
        let wanted = "a whole number of bytes from 1 to 17592186044416";
        self.read(key, wanted, |value| {
            let bytes = value
                .as_u64()
                .filter(|bytes| (1..=MOST_BYTES).contains(bytes));
            bytes.map(Bytes)
        })
    }

    /// A number from 0 up to, but not, 1.
    pub(crate) fn share(&self, key: &str) -> Result<Option<f64>, RecipeError> {
        self.read(key, "a number from 0 to below 1", |value| {
            value.as_f64().filter(|share| (0.0..1.0).contains(share))
        })
    }

    /// A list of names; one name alone is a list of one. Their order does not matter.
    pub(crate) fn names(&self, key: &str) -> Result<Option<BTreeSet<String>>, RecipeError> {
        self.read(key, "a list of names", |value| match value {
            Value::String(one) => Some(BTreeSet::from([one.clone()])),
            Value::Array(many) => many
                .iter()
                .map(|one| one.as_str().map(String::from))
                .collect(),
            _ => None,
        })
    }

    pub(crate) fn named<T>(
        &self,
        key: &str,
        known: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RecipeError> {
        self.read(key, "a name that the memory model knows", |value| {
            value.as_str().and_then(&known)
        })
    }
}
