//! The only place of this crate that reads a clock. Everything else is handed the time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix milliseconds: for records and people. Never subtracted to decide anything: clocks are set back.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
