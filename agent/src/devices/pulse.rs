//! When the cards were last looked at, for whoever must not trust what is older: a driver that hangs holds up the thread
//! that looks. Starts nothing and waits for nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A look takes milliseconds; on a driver that is busy for so long nothing is started.
const SILENT: Duration = Duration::from_secs(60);

/// Of a machine whose cards nobody looks at it never beats, and that is no trouble.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    pub fn beat(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Why the cards that are watched cannot be used now.
    #[must_use]
    pub fn trouble(&self, now: Instant) -> Option<String> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = now.saturating_duration_since(last?) > SILENT;
        silent.then(|| {
            format!(
                "the drivers have not answered for {} s: look at `dmesg`; one that hangs may need a restart of the machine",
                SILENT.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_look_that_does_not_come_back_is_told_after_a_minute() {
        let (pulse, begin) = (Pulse::default(), clock::monotonic());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(pulse.trouble(after(1000)), None, "nobody looks");
        pulse.beat(begin);
        assert_eq!(pulse.trouble(after(60)), None);
        assert!(pulse.trouble(after(61)).unwrap().contains("60 s"));
        pulse.clone().beat(after(61));
        assert_eq!(pulse.trouble(after(62)), None);
    }
}
