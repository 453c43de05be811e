//! The documents of `sweep vram` for people.

pub mod advise;
pub mod evaluate;
pub mod explain;
pub mod known;
pub mod predict;
pub mod replay;
pub mod report;

use serde::Serialize;

use super::format::unknown;

/// A unit variant as the documents write it: `too_large`, `learned`, `cuda`.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unknown(),
    }
}

/// One decimal: the figures of the memory model are compared to the MiB.
fn tenth(mib: f64) -> String {
    format!("{mib:.1}")
}

fn tenth_if(mib: Option<f64>) -> String {
    mib.map_or_else(unknown, tenth)
}

/// Errors run from 0.001 to 100 %: three digits.
fn percent(share: Option<f64>) -> String {
    match share {
        None => unknown(),
        Some(share) if share < 9.995 => format!("{share:.2}"),
        Some(share) => format!("{share:.1}"),
    }
}
