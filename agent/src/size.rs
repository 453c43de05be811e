//! Amounts of memory and of time as people write them: `"7.65 GiB"`, `"563 MiB"`; `"30s"`, `"1h"`.
//! Refuses a bare number: 8 of what is a question that only the writer can answer.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use thiserror::Error;
use vram::Bytes;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not an amount of memory; write it like \"7.65 GiB\" or \"563 MiB\"")]
pub struct BadSize(String);

const UNITS: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
];

/// Bytes of an amount with its unit; case and the blank between do not matter.
pub fn parse(text: &str) -> Result<Bytes, BadSize> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(|| BadSize(text.to_owned()))?;
    let number = text[..split].trim().parse::<f64>().ok();
    let unit = text[split..].to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit);
    match (number, factor) {
        (Some(number), Some((_, factor))) if number.is_finite() && number >= 0.0 => {
            Ok(Bytes((number * factor).round() as u64))
        }
        _ => Err(BadSize(text.to_owned())),
    }
}

/// A time above zero.
#[must_use]
pub fn time(text: &str) -> Option<Duration> {
    let time = text.parse::<jiff::SignedDuration>().ok()?;
    Duration::try_from(time).ok().filter(|time| !time.is_zero())
}

/// An amount in a TOML file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_need_a_unit() {
        assert_eq!(parse("7.65 GiB"), Ok(Bytes(8_214_124_954)));
        assert_eq!(parse("563MiB"), Ok(Bytes(563 << 20)));
        assert_eq!(parse("0 b"), Ok(Bytes(0)));
        for wrong in ["8", "", "GiB", "-1 GiB", "8 GiBs", "many MiB", "inf MiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
