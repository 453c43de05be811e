//! The text of a `config.json` as a value. Refuses what is too long to be one, what is no JSON (with the field it stands
//! in) and a field that is there twice, of which nobody knows which one the framework would take.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::architecture::{ArchitectureError, LONGEST_CONFIG, WHOLE_FILE, bad};

/// From the bytes of a `config.json`.
pub fn read_config(config: &[u8]) -> Result<Value, ArchitectureError> {
    if config.len() > LONGEST_CONFIG {
        let most = LONGEST_CONFIG >> 20;
        let message = format!("longer than {most} MiB: no configuration");
        return Err(bad(WHOLE_FILE, message));
    }
    let field = RefCell::new(Vec::new());
    let mut text = serde_json::Deserializer::from_slice(config);
    let read = At(&field).deserialize(&mut text);
    let read = read.and_then(|value| text.end().map(|()| value));
    read.map_err(|error| {
        let path = field.borrow().join(".");
        let field = if path.is_empty() { WHOLE_FILE } else { &path };
        let message = match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("not JSON: {error}"),
        };
        bad(field, message)
    })
}

/// Reads one value; what is left on the stack of names is where reading stopped.
struct At<'a>(&'a RefCell<Vec<String>>);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(At(self.0))? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        // A name stays until the next one is read, so that what stands between them is not nowhere.
        while let Some(name) = fields.next_key::<String>()? {
            if !read.is_empty() {
                self.0.borrow_mut().pop();
            }
            self.0.borrow_mut().push(name.clone());
            if read.contains_key(&name) {
                return Err(A::Error::custom("is there twice"));
            }
            let value = fields.next_value_seed(At(self.0))?;
            read.insert(name, value);
        }
        if !read.is_empty() {
            self.0.borrow_mut().pop();
        }
        Ok(Value::Object(read))
    }
}
