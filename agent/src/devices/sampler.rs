//! Watches the cards while the agent runs, on a thread of its own, because a driver may take its time: what others hold,
//! which card does not answer any more, what the driver reports. Ends no attempt and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::v1::{DeviceState, HostInfo};
use tokio::sync::watch;
use vram::Bytes;

use super::held::{Owner, held};
use super::{Found, Look, Watch};
use crate::config::{DeviceConfig, DeviceKind};

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
    pub holders: String,
    /// Why it cannot be used; empty: it can.
    pub missing: String,
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
            held_bytes: seen.map_or(device.held, |one| one.held.max(device.held)).0,
            holders: seen.map(|one| one.holders.clone()).unwrap_or_default(),
            missing: match seen {
                Some(seen) => seen.missing.clone(),
                None => device.missing.clone(),
            },
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
                last = sample(&devices, &look, &attempts, &last);
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

fn sample(devices: &[DeviceConfig], look: &Look, attempts: &impl Attempts, last: &Seen) -> Seen {
    let busy = attempts.devices();
    let state = |device: &DeviceConfig| {
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
        of_card(found, busy.contains(&device.id), attempts, before.held)
    };
    Seen(
        devices
            .iter()
            .map(|device| (device.id.clone(), state(device)))
            .collect(),
    )
}

const GONE: &str = "the driver does not show it any more: it may have fallen off the bus; look at `dmesg`, at its seat and its power";

fn of_card(found: &Found, active: bool, attempts: &impl Attempts, before: Bytes) -> State {
    let held = held(&found.now, |pid| attempts.owner(pid), active, before);
    State {
        held: Bytes(held.bytes.0.next_multiple_of(GRAIN)),
        holders: held.holders,
        missing: String::new(),
    }
}

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
        let seen = sample(&devices, &look, &Ours(&[], &[]), &Seen::default());
        let state = seen.state(&devices[0]);
        assert_eq!(state.held_bytes, 1 << 30);
        assert_eq!(
            state.holders,
            "Ollama 512 MiB, firefox (browser) 300 MiB, Xorg (desktop) 200 MiB"
        );
        // 5120 is ours now: what is left are the desktop and the browser.
        let seen = sample(&devices, &look, &Ours(&[TI], &[5120]), &seen);
        assert_eq!(seen.state(&devices[0]).held_bytes, 512 << 20);
    }

    #[test]
    fn the_owners_figure_is_the_least() {
        let look = desktop();
        let devices = devices(&look, "held = \"3 GiB\"");
        let seen = sample(&devices, &look, &Ours(&[], &[]), &Seen::default());
        assert_eq!(seen.state(&devices[0]).held_bytes, 3 << 30);
    }

    #[test]
    fn a_card_that_goes_is_missing_and_one_that_returns_is_not() {
        let look = desktop();
        let devices = devices(&look, "");
        let here = sample(&devices, &look, &Ours(&[], &[]), &Seen::default());
        let mut without = look.clone();
        without.found.clear();
        let gone = sample(&devices, &without, &Ours(&[], &[]), &here);
        assert!(
            gone.state(&devices[0])
                .missing
                .contains("fallen off the bus")
        );
        let back = sample(&devices, &look, &Ours(&[], &[]), &gone);
        assert_eq!(back, here);
    }
}
