//! The one place that reads clocks. Wall time is for people and evidence; durations come from the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Unix milliseconds by this host's clock, which may be wrong.
#[must_use]
#[allow(clippy::disallowed_methods)]
pub fn unix_ms() -> u64 {
    millis(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

/// A point in monotonic time.
#[must_use]
#[allow(clippy::disallowed_methods)]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Whole milliseconds, never a panic.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
