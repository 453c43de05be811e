//! Which hosts can rehearse now, which of them one rehearsal is not to be given, and which have been silent for too
//! long. Chooses none: that is `schedule::rehearse`'s.

use std::collections::BTreeSet;
use std::time::Instant;

use jobs::spec::DeviceKind;
use proto::convert;
use vram::Bytes;

use super::{LOOKING, OUT_OF_REACH, Stack, Subject, TIME_LIMIT};
use crate::engine::{Host, State, Work};
use crate::schedule::rehearse::Worker;

impl State {
    /// Up, in use, and able; in the order of names.
    pub(super) fn able(&self, now: Instant) -> impl Iterator<Item = &Host> {
        let heartbeat = self.timing.heartbeat;
        let hosts = self
            .hosts
            .values()
            .filter(|host| host.stack.can().is_some());
        hosts.filter(move |host| host.is_up(now, heartbeat) && !host.record.drained)
    }

    /// One of which it is not known yet whether it can: it is finding out, or may be about to return after a start of
    /// this coordinator.
    pub(super) fn looking(&self, now: Instant) -> Option<String> {
        let returns = !self.fleet_settled(now);
        let looks = |host: &&Host| match host.stack {
            Stack::Looking(since) => {
                let here = host.is_up(now, self.timing.heartbeat) || returns;
                here && !host.record.drained && now.duration_since(since) < LOOKING
            }
            _ => false,
        };
        let host = self.hosts.values().find(looks);
        host.map(|host| host.record.name.clone())
    }

    /// A rehearsal takes a CPU slot, where the host has a CPU among its devices.
    pub(super) fn worker<'a>(&self, host: &'a Host) -> Option<Worker<'a>> {
        let name = host.record.name.as_str();
        let running = self.book.on(name);
        let mut devices = host.record.devices.iter();
        let cpu = devices.find(|device| convert::device_kind(device) == DeviceKind::Cpu);
        let slots = cpu.map_or(u32::MAX, |cpu| {
            cpu.slots.saturating_sub(host.active_on(&cpu.id) + running)
        });
        Some(Worker {
            name,
            stack: host.stack.can()?,
            free: host.record.rehearsals.saturating_sub(running).min(slots),
        })
    }

    /// The hosts where it is not to be tried now, and those where it never is again.
    pub(super) fn barred<'a>(
        &self,
        subject: &Subject,
        rank: u64,
        able: &[&'a Host],
        now: Instant,
    ) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
        let (mut barred, mut for_good) = (BTreeSet::new(), BTreeSet::new());
        for host in able {
            let name = host.record.name.as_str();
            let allows = Bytes(host.record.rehearsal_memory_bytes);
            for ((_, at, on), failure) in self.book.failed(subject) {
                // What was too little for the one is for the other; one that does not say is worth a try.
                let too_little = failure.memory.is_some_and(|had| allows <= had);
                if too_little && allows > Bytes::ZERO {
                    for_good.insert(name);
                    barred.insert(name);
                }
                if on.as_str() != name {
                    continue;
                }
                // What a recipe lacks it lacks at every rank.
                if failure.last {
                    for_good.insert(name);
                }
                if failure.last || (*at == rank && now < failure.until) {
                    barred.insert(name);
                }
            }
        }
        (barred, for_good)
    }

    /// Of what is there of the family, or under way, if somebody still has it.
    pub(super) fn stack_of(&self, subject: &Subject, stacks: &BTreeSet<&str>) -> Option<&str> {
        let made = self.book.families.get(subject).into_iter();
        let made = made
            .flat_map(|known| known.made.values())
            .map(|record| &record.stack);
        let asked = self
            .book
            .asked
            .values()
            .filter(|one| one.subject == *subject);
        let mut all = made.chain(asked.map(|one| &one.stack)).map(String::as_str);
        all.find(|stack| stacks.contains(stack))
    }

    /// Hosts that are gone, and those that should have answered long ago.
    pub(super) fn give_up_silent(&mut self, now: Instant, work: &mut Work) {
        let heartbeat = self.timing.heartbeat;
        let mut late = Vec::new();
        for (key, asked) in &mut self.book.asked {
            let host = self.hosts.get(&asked.host);
            if host.is_some_and(|host| host.is_up(now, heartbeat)) {
                asked.heard = now;
            }
            let gone = now.duration_since(asked.heard) > OUT_OF_REACH;
            if gone || now.duration_since(asked.since) > TIME_LIMIT + OUT_OF_REACH {
                late.push((key.clone(), gone));
            }
        }
        for (key, gone) in late {
            if !gone {
                self.note_failure(&key, "timed_out", "no answer came", now);
            }
            self.forget_rehearsal(&key, work);
        }
    }
}
