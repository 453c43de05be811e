//! Whether a card's memory came back after an attempt. Pure: times and figures are arguments.
//!
//! What counts is memory in no process's figure, against what that was before the attempt; where the driver gives no
//! figures, all that is used. A process that somebody started meanwhile is no such memory. Nothing is ended or reset for
//! it: it counts as held, so the next attempts wait for what is really free.

use std::time::Duration;

use vram::Bytes;

use super::Live;

/// A driver takes a moment to give back what a killed process had.
const PATIENCE: Duration = Duration::from_secs(6);
/// Drivers keep some for themselves, more or less of it.
const SLACK: u64 = 64 << 20;

/// What is remembered of one card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// Nobody's, when no attempt of ours was there.
    before: Option<u64>,
    active: bool,
    /// When the last attempt went.
    ended: Option<Duration>,
    stuck: Option<Bytes>,
}

impl Returned {
    /// One look. `active`: an attempt of ours has the card. What has not come back for a while now.
    pub fn see(&mut self, live: &Live, active: bool, now: Duration) -> Option<Bytes> {
        let Some(nobodys) = nobodys(live) else {
            return self.stuck;
        };
        let left = std::mem::replace(&mut self.active, active) && !active;
        if left {
            self.ended = Some(now);
        }
        // An agent that found an attempt running saw nothing of before: then there was nothing.
        let before = self.before.unwrap_or(0);
        let more = nobodys.saturating_sub(before);
        if more <= SLACK {
            self.stuck = None;
            if !active {
                (self.before, self.ended) = (Some(nobodys), None);
            }
        } else if self.stuck.is_some() {
            self.stuck = Some(Bytes(more));
        } else if let Some(ended) = self.ended.filter(|_| !active) {
            if now.saturating_sub(ended) >= PATIENCE {
                self.stuck = Some(Bytes(more));
            }
        } else if !active {
            // No attempt had to do with it.
            self.before = Some(nobodys);
        }
        self.stuck
    }
}

/// Absent where the card says nothing.
fn nobodys(live: &Live) -> Option<u64> {
    let used = live.memory?.used;
    let told = live.processes.as_deref().unwrap_or_default();
    let of_processes: u64 = told.iter().filter_map(|one| one.bytes).sum();
    Some(used.saturating_sub(of_processes))
}

/// For `holders`, and for a line in the log.
#[must_use]
pub fn sentence(stuck: Bytes) -> String {
    format!(
        "{:.0} MiB that no process is known to have, since an attempt ended",
        stuck.mib()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{Memory, Process};

    const GIB: u64 = 1 << 30;

    fn live(used: u64, processes: &[(u32, u64)]) -> Live {
        let process = |(pid, bytes): &(u32, u64)| Process {
            pid: *pid,
            name: None,
            bytes: Some(*bytes),
        };
        Live {
            memory: Some(Memory {
                total: 16 * GIB,
                used,
                reserved: None,
            }),
            processes: Some(processes.iter().map(process).collect()),
            ..Live::default()
        }
    }

    /// Second, used, its processes, and whether an attempt has it.
    type Seen<'a> = (u64, u64, &'a [(u32, u64)], bool);

    /// MiB that did not come back.
    fn seen(looks: &[Seen<'_>]) -> Vec<Option<f64>> {
        let mut returned = Returned::default();
        looks
            .iter()
            .map(|(at, used, processes, active)| {
                let stuck =
                    returned.see(&live(*used, processes), *active, Duration::from_secs(*at));
                stuck.map(Bytes::mib)
            })
            .collect()
    }

    #[test]
    fn memory_that_comes_back_is_not_told() {
        let all = seen(&[
            (0, GIB, &[(7, GIB)], false),
            (2, 6 * GIB, &[(7, GIB), (8, 5 * GIB)], true),
            // It takes a moment.
            (4, 6 * GIB, &[(7, GIB)], false),
            (6, GIB + (32 << 20), &[(7, GIB)], false),
            (20, GIB, &[(7, GIB)], false),
        ]);
        assert_eq!(all, [None; 5]);
    }

    #[test]
    fn memory_that_stays_is_told_until_it_goes() {
        let all = seen(&[
            (0, 0, &[], false),
            (2, 5 * GIB, &[(8, 5 * GIB)], true),
            (4, 5 * GIB, &[], false),
            (8, 5 * GIB, &[], false),
            (10, 5 * GIB, &[], false),
            // Also while the next one runs beside it.
            (12, 8 * GIB, &[(9, 3 * GIB)], true),
            (14, 0, &[], false),
        ]);
        let stuck = Some(5120.0);
        assert_eq!(all, [None, None, None, None, stuck, stuck, None]);
    }

    #[test]
    fn what_a_stranger_took_meanwhile_is_his() {
        let all = seen(&[
            (0, 0, &[], false),
            (2, 5 * GIB, &[(8, 5 * GIB)], true),
            (4, 5 * GIB, &[(30, 5 * GIB)], false),
            (30, 5 * GIB, &[(30, 5 * GIB)], false),
        ]);
        assert_eq!(all, [None; 4]);
    }

    #[test]
    fn what_was_there_before_any_attempt_is_no_attempts() {
        let all = seen(&[
            (0, 3 * GIB, &[], false),
            (2, 4 * GIB, &[], false),
            (4, 6 * GIB, &[(8, 2 * GIB)], true),
            (6, 4 * GIB, &[], false),
            (60, 4 * GIB, &[], false),
        ]);
        assert_eq!(all, [None; 5]);
    }

    #[test]
    fn a_card_that_says_nothing_changes_nothing() {
        let mut returned = Returned::default();
        assert_eq!(returned.see(&Live::default(), false, Duration::ZERO), None);
        assert_eq!(returned, Returned::default());
        assert!(sentence(Bytes(5 << 30)).contains("5120 MiB"));
    }
}
