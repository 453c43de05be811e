//! Watches the cards while the agent runs, on a thread of its own, because a driver may take its time: what others hold,
//! which card does not answer any more, what the driver reports. Ends no attempt and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::v1::{DeviceState, HostInfo};
use tokio::sync::watch;
use vram::Bytes;

use super::held::{Owner, evictable, held};
use super::{Look, Watch};
use crate::config::{DeviceConfig, DeviceKind};
use crate::evict::{Evictable, Evictions};

/// Between two samples.
const PAUSE: Duration = Duration::from_secs(2);
/// How soon the thread notices that it is to end.
const NAP: Duration = Duration::from_millis(100);
/// Smaller changes are noise, and each change makes the coordinator look again.
const GRAIN: u64 = 1 << 20;

/// What is seen of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub held: Bytes,
    /// As much of it is given back when a job needs it.
    pub evictable: Bytes,
    pub holders: String,
    /// Why it cannot be used; empty: it can.
    pub missing: String,
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

    /// The same for a registration, so that nothing is placed on what was true long ago.
    pub fn apply(&self, info: &mut HostInfo, devices: &[DeviceConfig]) {
        for (said, device) in info.devices.iter_mut().zip(devices) {
            let state = self.state(device);
            (said.held_bytes, said.holders, said.missing) =
                (state.held_bytes, state.holders, state.missing);
        }
    }
}

/// What the thread asks of the agent.
pub trait Attempts: Send {
    /// Devices that an attempt has now.
    fn devices(&self) -> BTreeSet<String>;
    fn owner(&self, pid: u32) -> Owner;
}

pub struct Sampler {
    over: Arc<AtomicBool>,
    seen: watch::Receiver<Seen>,
}

impl Sampler {
    /// Nobody watches: every device is what its file says.
    #[must_use]
    pub fn none() -> Self {
        Self {
            over: Arc::default(),
            seen: watch::channel(Seen::default()).1,
        }
    }

    #[must_use]
    pub fn start(
        devices: &[DeviceConfig],
        mut watch: Box<dyn Watch>,
        attempts: impl Attempts + 'static,
        evictions: Evictions,
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
        let sample = move || {
            let mut last = Seen::default();
            while !ends.load(Ordering::Relaxed) {
                let look = watch.look();
                for fault in watch.faults() {
                    tracing::warn!(device = fault.id, "the driver reports {}", fault.what);
                }
                let (seen, evictable) = sample(&devices, &look, &attempts, &evictions, &last);
                last = seen;
                evictions.found(evictable);
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
        Self { over, seen }
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

fn sample(
    devices: &[DeviceConfig],
    look: &Look,
    attempts: &impl Attempts,
    evictions: &Evictions,
    last: &Seen,
) -> (Seen, Evictable) {
    let busy = attempts.devices();
    let mut all = Evictable::new();
    let mut state = |device: &DeviceConfig| {
        let before = last.0.get(&device.id).cloned().unwrap_or_else(|| State {
            held: device.held,
            ..State::default()
        });
        let Some(found) = look.found.iter().find(|found| found.is(&device.id)) else {
            let why = look.troubles.first().map(|trouble| trouble.what.clone());
            return State {
                missing: why.unwrap_or_else(|| GONE.to_owned()),
                holders: String::new(),
                ..before
            };
        };
        let owner = |pid| attempts.owner(pid);
        let (bytes, rules) = evictable(&found.now, owner, |name| evictions.rule_for(name));
        if bytes > Bytes::ZERO {
            all.insert(device.id.clone(), (bytes, rules));
        }
        let held = held(&found.now, owner, busy.contains(&device.id), before.held);
        State {
            held: Bytes(held.bytes.0.next_multiple_of(GRAIN)),
            evictable: bytes.min(held.bytes),
            holders: held.holders,
            missing: String::new(),
        }
    };
    let seen = devices
        .iter()
        .map(|device| (device.id.clone(), state(device)))
        .collect();
    (Seen(seen), all)
}

const GONE: &str = "the driver does not show it any more: it may have fallen off the bus; look at `dmesg`, at its seat and its power";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostFile;

    const TI: &str = "GPU-5b2a6f01-0000-1111-2222-333344445555";

    /// An attempt has this device, with these processes.
    struct Ours(&'static [&'static str], &'static [u32]);

    impl Attempts for Ours {
        fn devices(&self) -> BTreeSet<String> {
            self.0.iter().map(|id| (*id).to_owned()).collect()
        }

        fn owner(&self, pid: u32) -> Owner {
            if self.1.contains(&pid) {
                Owner::Ours
            } else {
                Owner::Stranger
            }
        }
    }

    fn nobody() -> Evictions {
        Evictions::new(Vec::new())
    }

    fn desktop() -> Look {
        serde_json::from_str(include_str!("../../tests/devices/desktop.json")).unwrap()
    }

    fn devices(look: &Look, held: &str) -> Vec<DeviceConfig> {
        let text = format!("[[device]]\nkind = \"gpu\"\nid = \"{TI}\"\n{held}");
        let mut file = HostFile::parse(&text).unwrap();
        super::super::join(&mut file, look);
        file.resolve().unwrap().devices
    }

    #[test]
    fn strangers_hold_and_our_own_do_not() {
        let look = desktop();
        let devices = devices(&look, "");
        let seen = sample(
            &devices,
            &look,
            &Ours(&[], &[]),
            &nobody(),
            &Seen::default(),
        )
        .0;
        let state = seen.state(&devices[0]);
        assert_eq!(state.held_bytes, 1 << 30);
        assert_eq!(
            state.holders,
            "Ollama 512 MiB, firefox (browser) 300 MiB, Xorg (desktop) 200 MiB"
        );
        // 5120 is ours now: what is left are the desktop and the browser.
        let seen = sample(&devices, &look, &Ours(&[TI], &[5120]), &nobody(), &seen).0;
        assert_eq!(seen.state(&devices[0]).held_bytes, 512 << 20);
    }

    #[test]
    fn the_owners_figure_is_the_least() {
        let look = desktop();
        let devices = devices(&look, "held = \"3 GiB\"");
        let seen = sample(
            &devices,
            &look,
            &Ours(&[], &[]),
            &nobody(),
            &Seen::default(),
        )
        .0;
        assert_eq!(seen.state(&devices[0]).held_bytes, 3 << 30);
    }

    #[test]
    fn a_card_that_goes_is_missing_and_one_that_returns_is_not() {
        let look = desktop();
        let devices = devices(&look, "");
        let here = sample(
            &devices,
            &look,
            &Ours(&[], &[]),
            &nobody(),
            &Seen::default(),
        )
        .0;
        let mut without = look.clone();
        without.found.clear();
        let gone = sample(&devices, &without, &Ours(&[], &[]), &nobody(), &here).0;
        assert!(
            gone.state(&devices[0])
                .missing
                .contains("fallen off the bus")
        );
        let back = sample(&devices, &look, &Ours(&[], &[]), &nobody(), &gone).0;
        assert_eq!(back, here);
    }

    #[test]
    fn what_is_given_back_when_asked_is_not_held() {
        let look = desktop();
        let devices = devices(&look, "");
        let rule = toml::from_str::<crate::evict::EvictFile>("ollama = 'http://127.0.0.1:1'");
        let evictions = Evictions::new(vec![rule.unwrap().resolve().unwrap()]);
        let ours = Ours(&[], &[]);
        let (seen, evictable) = sample(&devices, &look, &ours, &evictions, &Seen::default());
        let state = seen.state(&devices[0]);
        assert_eq!(state.held_bytes, 512 << 20, "the desktop and the browser");
        assert!(
            state.holders.starts_with("Ollama 512 MiB"),
            "{}",
            state.holders
        );
        assert_eq!(evictable[TI].0, Bytes(512 << 20));
    }
}
