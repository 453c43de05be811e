//! Where a job may go at all, whatever its size: label, pin, earlier work, kind of device. Computed once for all jobs
//! that ask the same; a silent, drained or quarantined host still counts, for it may come back.

use std::collections::BTreeMap;

use jobs::spec::DeviceKind;
use vram::Bytes;

use super::fleet::Fleet;
use super::reason::WaitReason;
use super::{HostView, JobView};

/// What is asked of a host and of the kind of its devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wish<'s> {
    pub require: &'s [String],
    pub device: Option<DeviceKind>,
    pub host: Option<&'s str>,
    pub stay: Option<&'s str>,
}

pub(super) struct Site {
    /// Candidates: indexes into the fleet's devices, ascending.
    pub devices: Vec<u32>,
    /// The same by class of device: what is too large for the roomiest of a class is so for all of it.
    pub classes: Vec<SiteClass>,
    /// Why there is none.
    pub none: Option<WaitReason>,
}

/// The candidates of one class.
pub(super) struct SiteClass {
    pub family: u32,
    pub class: usize,
    pub spills: bool,
    /// The most that any of them has.
    pub usable: Bytes,
    /// The most that others leave us of any of them.
    pub free: Bytes,
    /// What others leave us of each that may get work, ascending.
    pub live: Vec<Bytes>,
    /// The first to be free comes first.
    pub devices: Vec<u32>,
    /// Of all classes of all sites.
    pub number: usize,
}

impl SiteClass {
    /// How many of those that may get work have that much.
    pub fn with_room(&self, least: Bytes) -> usize {
        self.live.len() - self.live.partition_point(|free| *free < least)
    }
}

impl<'s> Wish<'s> {
    pub fn of(job: &JobView<'s>) -> Self {
        Self {
            require: job.require,
            device: job.device,
            host: job.host,
            stay: job.stay,
        }
    }

    /// What this host lacks.
    pub fn lacks(&self, host: &HostView<'_>) -> Option<WaitReason> {
        if let Some(stay) = self.stay.filter(|stay| *stay != host.name) {
            return Some(WaitReason::StaysOn {
                host: stay.to_owned(),
            });
        }
        if let Some(pin) = self.host.filter(|pin| *pin != host.name) {
            return Some(WaitReason::PinnedElsewhere {
                host: pin.to_owned(),
            });
        }
        let missing = self
            .require
            .iter()
            .find(|label| !host.labels.contains(*label))?;
        Some(WaitReason::MissingLabel {
            label: missing.clone(),
            host: Some(host.name.to_owned()),
        })
    }

    pub fn takes(&self, kind: DeviceKind) -> bool {
        self.device.is_none_or(|wanted| wanted == kind)
    }

    pub fn site(&self, fleet: &Fleet<'_>, first_class: usize) -> Site {
        let fits = |at: &usize| {
            let device = &fleet.devices[*at];
            self.takes(device.view.kind) && self.lacks(device.on).is_none()
        };
        let devices: Vec<u32> = (0..fleet.devices.len())
            .filter(fits)
            .map(|at| at as u32)
            .collect();
        let none = devices.is_empty().then(|| self.nowhere(fleet));
        let classes = classes(fleet, &devices, first_class);
        Site {
            devices,
            classes,
            none,
        }
    }

    /// Of several reasons the one that a person would look at first.
    fn nowhere(&self, fleet: &Fleet<'_>) -> WaitReason {
        if fleet.hosts.is_empty() {
            return WaitReason::NoHost;
        }
        let known = |name: &str| fleet.hosts.iter().any(|host| host.name == name);
        if let Some(host) = self.stay.or(self.host).filter(|name| !known(name)) {
            return WaitReason::NoSuchHost {
                host: host.to_owned(),
            };
        }
        let nobodys = |label: &&String| {
            let mut hosts = fleet.hosts.iter();
            !hosts.any(|host| host.labels.contains(*label))
        };
        let lacks: Vec<_> = fleet.hosts.iter().map(|host| self.lacks(host)).collect();
        if lacks.iter().any(Option::is_none) {
            return WaitReason::NoDevice { kind: self.device };
        }
        if let Some(label) = self.require.iter().find(nobodys) {
            return WaitReason::MissingLabel {
                label: label.clone(),
                host: None,
            };
        }
        let label = |reason: &WaitReason| matches!(reason, WaitReason::MissingLabel { .. });
        let mut reasons = lacks.into_iter().flatten();
        let first = reasons.next().unwrap_or(WaitReason::NoHost);
        if label(&first) {
            first
        } else {
            reasons.find(label).unwrap_or(first)
        }
    }
}

fn classes(fleet: &Fleet<'_>, devices: &[u32], first: usize) -> Vec<SiteClass> {
    let mut known: BTreeMap<(u32, usize, bool), SiteClass> = BTreeMap::new();
    for at in devices {
        let device = &fleet.devices[*at as usize];
        let (family, class, spills) = (device.family, device.class, device.view.spills);
        let entry = known
            .entry((family, class, spills))
            .or_insert_with(|| SiteClass {
                family,
                class,
                spills,
                usable: Bytes::ZERO,
                free: Bytes::ZERO,
                live: Vec::new(),
                devices: Vec::new(),
                number: 0,
            });
        entry.usable = device.usable.max(entry.usable);
        entry.free = device.free.max(entry.free);
        entry.live.extend(device.live.then_some(device.free));
        entry.devices.push(*at);
    }
    let mut classes: Vec<SiteClass> = known.into_values().collect();
    for (number, class) in (first..).zip(&mut classes) {
        class.number = number;
        class.live.sort_unstable();
        class
            .devices
            .sort_by_key(|at| (fleet.devices[*at as usize].free_at, *at));
    }
    classes
}
