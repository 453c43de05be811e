//! All devices in one list, in an order of their own (host name, device id), so that no decision depends on the order
//! in which hosts are listed. Holds what a round never changes; what it does change is [`Load`].

use std::collections::BTreeSet;

use vram::Bytes;

use super::{DeviceView, HostView, JobKey, Snapshot};

pub(super) struct Fleet<'s> {
    pub devices: Vec<Device<'s>>,
    /// The class names that comparisons go by, sorted.
    pub families: Vec<&'s str>,
    pub hosts: Vec<&'s HostView<'s>>,
    /// By class: the speed of its first device, 0 when not known.
    pub speeds: Vec<f64>,
}

pub(super) struct Device<'s> {
    /// Index into the snapshot's hosts.
    pub host: usize,
    /// Index into that host's devices.
    pub device: usize,
    pub on: &'s HostView<'s>,
    pub view: &'s DeviceView<'s>,
    pub class: usize,
    /// Index into [`Fleet::families`].
    pub family: u32,
    pub usable: Bytes,
    /// What others leave us of it, before our own reservations.
    pub free: Bytes,
    /// May get work at all.
    pub live: bool,
    /// Millisecond at which it is expected to be free; unknown is later than all that is known.
    pub free_at: u64,
}

/// What a round changes of a device.
#[derive(Clone)]
pub(super) struct Load {
    pub reserved: Bytes,
    pub active: u32,
    /// The job ahead in the queue that needs the device; nothing behind it may pass, or it could wait for ever.
    pub kept: Option<JobKey>,
}

impl<'s> Fleet<'s> {
    pub fn of(snapshot: &'s Snapshot<'s>) -> Self {
        let families: BTreeSet<&str> = each_device(snapshot)
            .map(|(.., view)| view.class_name)
            .collect();
        let families: Vec<&str> = families.into_iter().collect();
        let mut devices: Vec<Device<'s>> = each_device(snapshot)
            .map(|(host, device, on, view)| Device {
                host,
                device,
                on,
                view,
                class: view.class.index(),
                family: families.partition_point(|name| *name < view.class_name) as u32,
                usable: view.load.usable,
                free: view.load.room(),
                live: on.up
                    && !on.drained
                    && view.quarantine.is_none()
                    && view.missing.is_none()
                    && view.owner.is_none(),
                free_at: match view.busy_until_ms {
                    Some(at) => at,
                    None if view.active == 0 => 0,
                    None => u64::MAX,
                },
            })
            .collect();
        devices.sort_by_key(|device| (device.on.name, device.view.id));
        let mut hosts: Vec<_> = snapshot.hosts.iter().collect();
        hosts.sort_by_key(|host| host.name);
        let speeds = speeds(&devices);
        Self {
            devices,
            families,
            hosts,
            speeds,
        }
    }

    pub fn loads(&self) -> Vec<Load> {
        let load = |device: &Device<'_>| Load {
            reserved: device.view.reserved,
            active: device.view.active,
            kept: None,
        };
        self.devices.iter().map(load).collect()
    }

    pub fn family(&self, name: &str) -> Option<u32> {
        let at = self.families.binary_search(&name).ok()?;
        Some(at as u32)
    }
}

fn each_device<'s>(
    snapshot: &'s Snapshot<'s>,
) -> impl Iterator<Item = (usize, usize, &'s HostView<'s>, &'s DeviceView<'s>)> {
    snapshot.hosts.iter().enumerate().flat_map(|(at, host)| {
        let devices = host.devices.iter().enumerate();
        devices.map(move |(device, view)| (at, device, host, view))
    })
}

fn speeds(devices: &[Device<'_>]) -> Vec<f64> {
    let classes = devices
        .iter()
        .map(|device| device.class + 1)
        .max()
        .unwrap_or(0);
    let mut speeds = vec![0.0; classes];
    for device in devices {
        if speeds[device.class] <= 0.0 && device.view.speed > 0.0 {
            speeds[device.class] = device.view.speed;
        }
    }
    speeds
}

impl Device<'_> {
    /// `HOST DEVICE`, as people are told.
    pub fn title(&self) -> String {
        format!("{} {}", self.on.name, self.view.name)
    }
}
