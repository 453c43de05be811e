//! Waiting for something to become true: looks again until a deadline, then fails and says what it waited for.

use std::time::{Duration, Instant};

/// For what takes a moment: long enough for a debug build on a busy machine, and never waited out when all is well.
pub const SOON: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(10);

/// Returns once `check` is true.
pub fn until(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    until_some(what, limit, || check().then_some(()));
}

/// Returns what `check` finds.
pub fn until_some<T>(what: &str, limit: Duration, mut check: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(begin.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}
