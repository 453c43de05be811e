//! TOML values as JSON values, numbers as numbers. Refuses what JSON cannot say: dates, infinities, whole numbers
//! beyond 64 bits.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeValue};

use super::reader::Span;

/// With its article, to follow "not".
pub(crate) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The same for a value already read.
pub(crate) fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
    }
}

/// For a string that holds a number or a truth value: what it would be without its quotes.
pub(crate) fn quoted_other<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    let text = value.as_str()?.trim();
    let is_other =
        text.parse::<f64>().is_ok_and(f64::is_finite) || matches!(text, "true" | "false");
    is_other.then_some(text)
}

/// A decimal number that is a whole one, as that.
pub(crate) fn without_point(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_float().and_then(to_f64)?;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    value.as_integer().and_then(to_i64)
}

fn to_i64(integer: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn to_f64(float: &DeFloat<'_>) -> Option<f64> {
    float
        .as_str()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

pub(crate) fn to_json(value: &Spanned<DeValue<'_>>) -> Result<Value, (Span, String)> {
    let refuse = |message: &str| Err((value.span(), message.to_owned()));
    match value.get_ref() {
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Boolean(answer) => Ok(Value::from(*answer)),
        DeValue::Integer(number) => match to_i64(number) {
            Some(number) => Ok(Value::from(number)),
            None => refuse("this whole number does not fit into 64 bits"),
        },
        DeValue::Float(number) => match to_f64(number).and_then(Number::from_f64) {
            Some(number) => Ok(Value::Number(number)),
            None => refuse("a number must be finite"),
        },
        DeValue::Datetime(_) => refuse("dates and times need quotes: programs get them as text"),
        DeValue::Array(items) => items.iter().map(to_json).collect(),
        DeValue::Table(table) => {
            let mut object = Map::new();
            for (key, value) in table {
                object.insert(key.get_ref().to_string(), to_json(value)?);
            }
            Ok(Value::Object(object))
        }
    }
}

/// One text for equal values: `1` and `1.0` are the same cell.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            // Below 2^53 every whole number is exact, so nothing is merged that differs.
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => {
                format!("{}", float as i64)
            }
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let fields = object
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Equal as cells are compared: `1` is `1.0`. Agrees with [`canonical`], without making texts.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            canonical(one) == canonical(other)
        }
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| same(one, other))
        }
        (Value::Object(_), Value::Object(_)) => canonical(one) == canonical(other),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Value, String> {
        let value = DeValue::parse(text).unwrap();
        to_json(&value).map_err(|(_, message)| message)
    }

    #[test]
    fn numbers_stay_numbers() {
        assert_eq!(json("1e-5"), Ok(Value::from(1e-5)));
        assert_eq!(json("96"), Ok(Value::from(96)));
        assert_eq!(json("1_000"), Ok(Value::from(1000)));
        assert_eq!(json("0x10"), Ok(Value::from(16)));
        assert_eq!(json("+1.5"), Ok(Value::from(1.5)));
        assert_eq!(json("-7"), Ok(Value::from(-7)));
        assert!(json("inf").is_err() && json("nan").is_err() && json("1e999").is_err());
        assert!(json("99999999999999999999").is_err());
        assert!(json("2026-01-01").is_err());
    }

    #[test]
    fn equal_values_have_one_text() {
        assert_eq!(canonical(&Value::from(1)), canonical(&Value::from(1.0)));
        assert_eq!(canonical(&Value::from(-0.0)), canonical(&Value::from(0)));
        assert_ne!(canonical(&Value::from("1")), canonical(&Value::from(1)));
        assert_ne!(
            canonical(&Value::from(1e-5)),
            canonical(&Value::from(1.1e-5))
        );
        let (big, next) = (i64::MAX, i64::MAX - 1);
        assert_ne!(canonical(&Value::from(big)), canonical(&Value::from(next)));
    }
}
