//! Wire and store messages to the nouns of `jobs`, and back. Conversions only: what cannot be read is an error
//! that names the field, never a default.

mod attempt;
mod files;
mod host;
mod sweep;

use thiserror::Error;

pub use attempt::{attempt, attempt_record, ended, ended_message};
pub use files::{file_manifest, manifest, manifest_message, manifest_of};
pub use host::{device_class, device_kind, host_class, host_record, load};
pub use sweep::{mark, mark_record, ruling, ruling_record};

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}: field `{field}` is `{value}`")]
pub struct Unreadable {
    pub message: &'static str,
    pub field: &'static str,
    pub value: String,
}

fn unreadable(message: &'static str, field: &'static str, value: impl ToString) -> Unreadable {
    Unreadable {
        message,
        field,
        value: value.to_string(),
    }
}

/// 0 stands for "not yet" and "not measured" in records.
fn some_if(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}
