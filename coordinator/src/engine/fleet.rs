//! The hosts that the coordinator knows, which of them it hears of, and what is reserved on their devices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jobs::{AttemptId, AttemptOutcome};
use proto::store::v1::HostRecord;
use proto::v1::CoordinatorMessage;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use vram::{Bytes, DeviceClass};

use super::Stack;
use super::rehearsals::LOOKING;

/// Silent for so many heartbeats: no new work goes there until it is heard of again.
const SILENT_AFTER: u32 = 3;

/// What some recipes need and some hosts lack.
const PACKAGES: [&str; 1] = ["bitsandbytes"];

/// So many faults in a row put a device into quarantine.
const FAULTS: u32 = 2;

pub struct Host {
    pub record: HostRecord,
    /// Its own, and `package:NAME` for what its Python may have.
    pub labels: BTreeSet<String>,
    pub classes: Vec<DeviceClass>,
    /// By device: what arms of a comparison must share.
    pub class_names: Vec<String>,
    pub session: Option<Session>,
    /// By a monotonic clock.
    pub seen: Instant,
    pub active: BTreeMap<AttemptId, Held>,
    /// Given up, but still there by the agent's own word: told to end, and holding their devices until they have.
    pub leaving: BTreeMap<AttemptId, Held>,
    /// Attempts ended since this coordinator started.
    pub total: u64,
    pub succeeded: u64,
    /// By device: GPU faults in a row.
    pub faults: BTreeMap<String, u32>,
    /// Whether it can rehearse.
    pub stack: Stack,
    /// What its Python had in the session before counts until its agent has looked again.
    recalled: bool,
}

#[derive(Clone)]
pub struct Session {
    pub number: u64,
    pub sender: UnboundedSender<CoordinatorMessage>,
    /// Ends the stream: an agent that is not listened to any more must notice, and dial in anew.
    pub close: CancellationToken,
}

/// What an active attempt holds of its host.
#[derive(Clone, Debug)]
pub struct Held {
    pub devices: Vec<String>,
    pub grant: Bytes,
}

impl Host {
    pub fn new(record: HostRecord, seen: Instant) -> Self {
        let classes: Vec<DeviceClass> = record
            .devices
            .iter()
            .map(|device| proto::convert::device_class(&record, device))
            .collect();
        let stack = Stack::of_new(record.rehearsals, seen);
        Self {
            labels: labels(&record, &stack),
            stack,
            recalled: false,
            class_names: classes.iter().map(proto::convert::host_class).collect(),
            classes,
            record,
            session: None,
            seen,
            active: BTreeMap::new(),
            leaving: BTreeMap::new(),
            total: 0,
            succeeded: 0,
            faults: BTreeMap::new(),
        }
    }

    /// Its agent has looked what its Python can.
    pub fn set_stack(&mut self, stack: Stack) {
        self.labels = labels(&self.record, &stack);
        self.stack = stack;
    }

    /// What was known of its Python in the session before counts until it is known again.
    pub fn recall_packages(&mut self, before: &Stack) {
        if matches!(self.stack, Stack::Looking(_)) {
            self.labels = labels(&self.record, before);
            self.recalled = !matches!(before, Stack::Looking(_));
        }
    }

    /// Nobody knows yet which packages its Python has, and somebody is finding out.
    pub fn packages_unknown(&self, now: Instant) -> bool {
        !self.recalled
            && matches!(self.stack, Stack::Looking(since) if now.duration_since(since) < LOOKING)
    }

    /// Stops listening to the session that speaks for the host, if there is one.
    pub fn hang_up(&mut self) {
        if let Some(session) = self.session.take() {
            session.close.cancel();
        }
    }

    /// Counts the faults of a device; one that fails again and again gets no more work until its owner says so.
    /// Whether the host's record has changed.
    pub fn note_fault(&mut self, devices: &[String], outcome: &str) -> bool {
        let mut changed = false;
        for id in devices {
            if outcome != AttemptOutcome::GpuFault.as_str() {
                if outcome == AttemptOutcome::Succeeded.as_str() {
                    self.faults.remove(id);
                }
                continue;
            }
            let faults = self.faults.entry(id.clone()).or_default();
            *faults += 1;
            let device = self.record.devices.iter_mut().find(|one| one.id == *id);
            if let Some(device) = device.filter(|_| *faults >= FAULTS) {
                device.quarantine = format!(
                    "{faults} GPU faults in a row; look at the driver's log, then `sweep host resume {}`",
                    self.record.name
                );
                *faults = 0;
                changed = true;
            }
        }
        changed
    }

    pub fn is_up(&self, now: Instant, heartbeat: Duration) -> bool {
        self.session.is_some() && now.duration_since(self.seen) < heartbeat * SILENT_AFTER
    }

    pub fn reserved(&self, device: &str) -> Bytes {
        self.on(device).map(|held| held.grant).sum()
    }

    pub fn active_on(&self, device: &str) -> u32 {
        u32::try_from(self.on(device).count()).unwrap_or(u32::MAX)
    }

    fn on<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a Held> {
        let all = self.active.values().chain(self.leaving.values());
        all.filter(move |held| held.devices.iter().any(|id| id == device))
    }

    pub fn send(&self, message: proto::v1::coordinator_message::Message) {
        if let Some(session) = &self.session {
            // A session that has just gone is found out by its reader; what was sent is sent again on its return.
            let _ = session.sender.send(CoordinatorMessage {
                message: Some(message),
            });
        }
    }

    /// One class for the whole host, for tables: that of its first device.
    pub fn class(&self) -> &str {
        self.class_names.first().map_or("", String::as_str)
    }
}

/// The host's own, and the packages that its Python may have.
fn labels(record: &HostRecord, stack: &Stack) -> BTreeSet<String> {
    let packages = PACKAGES
        .iter()
        .filter(|package| stack.may_have(package))
        .map(|package| format!("package:{package}"));
    record.labels.iter().cloned().chain(packages).collect()
}

#[cfg(test)]
mod tests {
    use proto::store::v1::DeviceRecord;

    use super::*;

    #[test]
    fn two_faults_in_a_row_quarantine_the_device_and_no_other() {
        let device = |id: &str| DeviceRecord {
            id: id.into(),
            ..DeviceRecord::default()
        };
        let record = HostRecord {
            name: "box".into(),
            devices: vec![device("a"), device("b")],
            ..HostRecord::default()
        };
        let mut host = Host::new(record, Instant::now());
        let on_a = ["a".to_owned()];
        assert!(!host.note_fault(&on_a, "gpu_fault"));
        assert!(!host.note_fault(&on_a, "succeeded"));
        assert!(
            !host.note_fault(&on_a, "gpu_fault"),
            "a success came between"
        );
        assert!(host.note_fault(&on_a, "gpu_fault"));
        assert!(
            host.record.devices[0]
                .quarantine
                .contains("sweep host resume box")
        );
        assert!(host.record.devices[1].quarantine.is_empty());
    }
}
