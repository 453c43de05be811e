//! Hosts and their devices.

use jobs::spec::DeviceKind;
use vram::{Backend, Bytes, DeviceClass, DeviceLoad};

use super::{Unreadable, unreadable};
use crate::said::plain;
use crate::store::v1::{DeviceRecord, HostRecord};
use crate::v1;

/// What a host said of itself, checked. Generation, times and the owner's wishes are the caller's.
pub fn host_record(hello: &v1::Hello) -> Result<HostRecord, Unreadable> {
    let wire = |field, value: &str| unreadable("a host's registration", field, value);
    let host = hello.host.clone().unwrap_or_default();
    if !jobs::is_host_name(&host.name) {
        return Err(wire("name", &host.name));
    }
    // They stand in tables and in logs of others.
    let texts = [&hello.agent_version, &host.os]
        .into_iter()
        .chain(&host.labels);
    if let Some(text) = texts
        .into_iter()
        .find(|text| text.contains(char::is_control))
    {
        return Err(wire("text", &text.escape_debug().to_string()));
    }
    let (mut devices, mut degraded) = (Vec::new(), host.degraded);
    for device in host.devices {
        // Of a newer agent: nothing is placed on it, and its host is of use without it.
        if kind(&device.kind).is_none() || backend(&device.backend).is_none() {
            let what = plain(&format!("{} ({})", device.backend, device.kind), 80);
            let id = plain(&device.id, 80);
            degraded.push(format!(
                "device {id} is of a kind that this coordinator does not know, {what}: upgrade the coordinator to use it"
            ));
            continue;
        }
        if device.id.is_empty() {
            return Err(wire("device.id", ""));
        }
        for text in [&device.id, &device.name] {
            if text.contains(char::is_control) {
                return Err(wire("device.name", &text.escape_debug().to_string()));
            }
        }
        devices.push(DeviceRecord {
            id: device.id,
            name: device.name,
            kind: device.kind,
            backend: device.backend,
            total_bytes: device.total_bytes,
            usable_bytes: device.usable_bytes,
            held_bytes: device.held_bytes,
            spills: device.spills,
            slots: device.slots.max(1),
            simulated: device.simulated,
            speed: device.speed,
            quarantine: String::new(),
            about: device.about,
            holders: device.holders,
            missing: device.missing,
            watched: device.watched,
            owner: device.owner,
        });
    }
    Ok(HostRecord {
        name: host.name,
        os: host.os,
        labels: host.labels,
        devices,
        simulated: host.simulated,
        rehearsals: if host.simulated { 0 } else { host.rehearsals },
        rehearsal_memory_bytes: host.rehearsal_memory_bytes,
        degraded,
        agent_version: hello.agent_version.clone(),
        spool: hello.spool.clone(),
        time_scale: if host.time_scale > 0.0 {
            host.time_scale
        } else {
            1.0
        },
        ..HostRecord::default()
    })
}

fn kind(text: &str) -> Option<DeviceKind> {
    match text {
        "cpu" => Some(DeviceKind::Cpu),
        "gpu" => Some(DeviceKind::Gpu),
        _ => None,
    }
}

fn backend(text: &str) -> Option<Backend> {
    match text {
        "cuda" => Some(Backend::Cuda),
        "rocm" => Some(Backend::Rocm),
        "cpu" => Some(Backend::Cpu),
        _ => None,
    }
}

/// A registered device has one of the two kinds.
#[must_use]
pub fn device_kind(device: &DeviceRecord) -> DeviceKind {
    kind(&device.kind).unwrap_or(DeviceKind::Gpu)
}

/// The class that the memory model knows the device by. A CPU is a class of its own: its host's.
#[must_use]
pub fn device_class(host: &HostRecord, device: &DeviceRecord) -> DeviceClass {
    let backend = backend(&device.backend).unwrap_or(Backend::Cpu);
    let name = match backend {
        Backend::Cpu => host.name.clone(),
        _ => device.name.clone(),
    };
    DeviceClass {
        name,
        backend,
        os: host.os.clone(),
        spills: device.spills,
        simulated: device.simulated,
    }
}

/// What arms of a comparison must share: `RTX 3070 Ti/cuda/linux`.
#[must_use]
pub fn host_class(class: &DeviceClass) -> String {
    let backend = match class.backend {
        Backend::Cuda => "cuda",
        Backend::Rocm => "rocm",
        Backend::Cpu => "cpu",
    };
    format!("{}/{backend}/{}", class.name, class.os)
}

#[must_use]
pub fn load(device: &DeviceRecord) -> DeviceLoad {
    DeviceLoad {
        usable: Bytes(device.usable_bytes),
        held: Bytes(device.held_bytes),
    }
}
