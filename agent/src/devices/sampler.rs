//! Watches the cards while the agent runs, on a thread of its own, because a driver may take its time: what others hold,
//! which card does not answer any more, what the driver reports. Tells attempts what concerns them; ends none and decides
//! nothing: that is in `round`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::v1::DeviceState;
use tokio::sync::watch;
use vram::Bytes;

use super::fault::Told;
use super::held::Owner;
use super::round::Rounds;
use super::{Pulse, Watch};
use crate::clock;
use crate::config::{DeviceConfig, DeviceKind};
use crate::evict::Evictable;

/// Between two samples.
const PAUSE: Duration = Duration::from_secs(2);
/// How soon the thread notices that it is to end.
const NAP: Duration = Duration::from_millis(100);

/// What is seen of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub held: Bytes,
    /// As much of it is given back when a job needs it, by these rules.
    pub evictable: Bytes,
    pub rules: BTreeSet<usize>,
    pub holders: String,
    /// Why it cannot be used; empty: it can.
    pub missing: String,
    /// Some of what is held is nobody's, and did not come back after an attempt.
    pub stuck: bool,
}

impl State {
    /// What stays held when a job comes.
    fn kept(&self) -> Bytes {
        self.held.saturating_sub(self.evictable)
    }
}

/// By device id. Devices that nobody watches are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeMap<String, State>);

impl Seen {
    #[must_use]
    pub fn of(states: BTreeMap<String, State>) -> Self {
        Self(states)
    }

    /// What a heartbeat says of a device.
    #[must_use]
    pub fn state(&self, device: &DeviceConfig) -> DeviceState {
        let seen = self.0.get(&device.id);
        DeviceState {
            id: device.id.clone(),
            // What the owner wants left to others stays theirs also while they do not take it.
            held_bytes: seen
                .map_or(device.held, |one| one.kept().max(device.held))
                .0,
            holders: seen.map(|one| one.holders.clone()).unwrap_or_default(),
            missing: match seen {
                Some(seen) => seen.missing.clone(),
                None => device.missing.clone(),
            },
            owner: String::new(),
        }
    }

    #[must_use]
    pub fn evictable(&self) -> Evictable {
        let some = self.0.iter().filter(|(_, one)| one.evictable > Bytes::ZERO);
        let what = |one: &State| (one.evictable, one.rules.clone());
        some.map(|(id, one)| (id.clone(), what(one))).collect()
    }

    fn log_changes(&self, next: &Self) {
        for (id, state) in &next.0 {
            let before = self.0.get(id).cloned().unwrap_or_default();
            if state.stuck && !before.stuck {
                tracing::warn!(device = id, "held by {}", state.holders);
            } else if before.stuck && !state.stuck && state.missing.is_empty() {
                tracing::info!(device = id, "its memory came back");
            }
            if before.missing.is_empty() && !state.missing.is_empty() {
                tracing::warn!(device = id, "missing: {}", state.missing);
            }
        }
    }
}

/// What the thread asks of the agent.
pub trait Attempts: Send {
    /// Devices that an attempt has now.
    fn devices(&self) -> BTreeSet<String>;
    fn owner(&self, pid: u32) -> Owner;
    /// Which of the owner's rules this program gives its memory back by.
    fn gives_way(&self, program: &str) -> Option<usize>;
    /// What can be asked for.
    fn found(&self, evictable: Evictable);
    /// What those on a device are to know of it.
    fn tell(&self, told: &Told);
}

pub struct Sampler {
    over: Arc<AtomicBool>,
    seen: watch::Receiver<Seen>,
    pulse: Pulse,
}

impl Sampler {
    /// Nobody watches: every device is what its file says.
    #[must_use]
    pub fn none() -> Self {
        Self {
            over: Arc::default(),
            seen: watch::channel(Seen::default()).1,
            pulse: Pulse::default(),
        }
    }

    #[must_use]
    pub fn start(
        devices: &[DeviceConfig],
        mut watch: Box<dyn Watch>,
        attempts: impl Attempts + 'static,
    ) -> Self {
        let devices: Vec<DeviceConfig> = devices
            .iter()
            .filter(|device| device.kind == DeviceKind::Gpu && device.watched)
            .cloned()
            .collect();
        if devices.is_empty() {
            return Self::none();
        }
        let (tell, seen) = tokio::sync::watch::channel(Seen::default());
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let pulse = Pulse::default();
        let heart = pulse.clone();
        let sample = move || {
            let (begin, mut last) = (clock::monotonic(), Seen::default());
            let mut rounds = Rounds::new(devices);
            while !ends.load(Ordering::Relaxed) {
                heart.beat(clock::monotonic());
                let look = watch.look();
                let faults = watch.faults();
                for fault in &faults {
                    tracing::warn!(device = fault.id, "the driver reports {}", fault.what);
                }
                let (next, told) = rounds.next(&look, &faults, &attempts, begin.elapsed());
                for one in &told {
                    attempts.tell(one);
                }
                attempts.found(next.evictable());
                last.log_changes(&next);
                last = next;
                tell.send_if_modified(|seen| {
                    let changed = *seen != last;
                    seen.clone_from(&last);
                    changed
                });
                let mut left = PAUSE;
                while left > Duration::ZERO && !ends.load(Ordering::Relaxed) {
                    std::thread::sleep(NAP);
                    left = left.saturating_sub(NAP);
                }
            }
        };
        let thread = std::thread::Builder::new().name("devices".to_owned());
        if let Err(error) = thread.spawn(sample) {
            tracing::warn!(%error, "the devices are not watched");
        }
        Self { over, seen, pulse }
    }

    /// When it was last seen.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// What is seen, now and with each change.
    #[must_use]
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
