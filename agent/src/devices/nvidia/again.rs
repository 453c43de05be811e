//! A driver that may fail and come back: upgraded, reloaded, or not ready yet when the agent was started. While it does
//! not answer its trouble is told, and it is opened anew every so often. Asks the driver nothing itself.

use std::time::{Duration, Instant};

use vram::Backend;

use crate::clock;
use crate::devices::{Fault, Look, Trouble, Watch};

/// Between two tries: opening a broken driver costs it, and a card that is being reset, some work.
const PAUSE: Duration = Duration::from_secs(60);

pub struct Again<W, O> {
    way: Result<W, Trouble>,
    open: O,
    tried: Instant,
}

impl<W: Watch, O: Fn() -> Result<W, Trouble>> Again<W, O> {
    #[must_use]
    pub fn alive(way: W, open: O) -> Self {
        Self::of(Ok(way), open)
    }

    #[must_use]
    pub fn dead(trouble: Trouble, open: O) -> Self {
        Self::of(Err(trouble), open)
    }

    fn of(way: Result<W, Trouble>, open: O) -> Self {
        Self {
            way,
            open,
            tried: clock::monotonic(),
        }
    }

    fn look_at(&mut self, now: Instant) -> Look {
        if let Ok(way) = &mut self.way {
            let look = way.look();
            let whole = look.troubles.iter().find(|one| !one.one_card);
            let Some(trouble) = whole else {
                return look;
            };
            // It is closed at once, so that a driver may be unloaded, and opened anew later.
            (self.way, self.tried) = (Err(trouble.clone()), now);
            return look;
        }
        if now.saturating_duration_since(self.tried) >= PAUSE {
            self.tried = now;
            self.way = (self.open)();
            if let Ok(way) = &mut self.way {
                tracing::info!("the NVIDIA driver answers again");
                return way.look();
            }
        }
        Look {
            answered: [Backend::Cuda].into(),
            troubles: self.way.as_ref().err().cloned().into_iter().collect(),
            ..Look::default()
        }
    }
}

impl<W: Watch, O: Fn() -> Result<W, Trouble> + Send> Watch for Again<W, O> {
    fn look(&mut self) -> Look {
        self.look_at(clock::monotonic())
    }

    fn faults(&mut self) -> Vec<Fault> {
        self.way.as_mut().map_or_else(|_| Vec::new(), Watch::faults)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn trouble(what: &str) -> Trouble {
        Trouble {
            backend: Backend::Cuda,
            what: what.to_owned(),
            one_card: false,
        }
    }

    /// Answers so often, and fails from then on.
    struct Fake(u32);

    impl Watch for Fake {
        fn look(&mut self) -> Look {
            let fails = self.0 == 0;
            self.0 = self.0.saturating_sub(1);
            Look {
                answered: [Backend::Cuda].into(),
                troubles: fails.then(|| trouble("broken")).into_iter().collect(),
                ..Look::default()
            }
        }
    }

    #[test]
    fn a_driver_that_failed_is_tried_again_and_not_all_the_time() {
        let tries = Cell::new(0);
        let open = || {
            tries.set(tries.get() + 1);
            if tries.get() < 2 {
                Err(trouble("not yet"))
            } else {
                Ok(Fake(1))
            }
        };
        let mut again = Again::dead(trouble("not loaded"), open);
        let begin = again.tried;
        let mut said = |seconds: u64| {
            let look = again.look_at(begin + Duration::from_secs(seconds));
            look.troubles.first().map(|trouble| trouble.what.clone())
        };
        assert_eq!(said(2).as_deref(), Some("not loaded"));
        assert_eq!(said(60).as_deref(), Some("not yet"));
        assert_eq!(said(62).as_deref(), Some("not yet"));
        assert_eq!(said(120), None);
        // It breaks, and comes back a minute later.
        assert_eq!(said(122).as_deref(), Some("broken"));
        assert_eq!(said(124).as_deref(), Some("broken"));
        assert_eq!(said(182), None);
        assert_eq!(tries.get(), 3);
    }
}
