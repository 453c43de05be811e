//! A host and its devices as a document.

use std::time::Instant;

use proto::time::rfc3339_if;
use proto::v1::{DeviceDocument, HostDocument};
use vram::Bytes;

use super::mib;
use crate::engine::{Host, Stack, State};

pub fn host(state: &State, host: &Host, now: Instant) -> HostDocument {
    let record = &host.record;
    let heard = if host.is_up(now, state.timing.heartbeat) {
        "up"
    } else if now.duration_since(host.seen) < state.timing.grace {
        "silent"
    } else {
        "lost"
    };
    let devices = record.devices.iter().map(|device| DeviceDocument {
        id: device.id.clone(),
        name: device.name.clone(),
        kind: device.kind.clone(),
        backend: device.backend.clone(),
        usable_mib: mib(Bytes(device.usable_bytes)),
        held_mib: mib(Bytes(device.held_bytes)),
        reserved_mib: mib(host.reserved(&device.id)),
        slots: device.slots,
        spills: device.spills,
        simulated: device.simulated,
        quarantine: (!device.quarantine.is_empty()).then(|| device.quarantine.clone()),
        about: said(&device.about),
        holders: said(&device.holders),
        missing: said(&device.missing),
        owner: said(&device.owner),
    });
    HostDocument {
        name: record.name.clone(),
        state: heard.into(),
        os: record.os.clone(),
        simulated: record.simulated,
        drained: record.drained,
        generation: record.generation,
        labels: record.labels.clone(),
        devices: devices.collect(),
        last_seen_at: rfc3339_if(record.seen_ms),
        agent_version: record.agent_version.clone(),
        attempts: host.active.keys().map(ToString::to_string).collect(),
        attempts_total: host.total,
        attempts_succeeded: host.succeeded,
        host_class: host.class().into(),
        degraded: record.degraded.clone(),
        rehearses: host.stack.can().map(str::to_owned),
        rehearsing: state.book.on(&record.name),
        cannot_rehearse: match &host.stack {
            Stack::Cannot(why) => Some(why.clone()),
            Stack::Can(_) | Stack::Looking(_) => None,
        },
    }
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
