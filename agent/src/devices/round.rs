//! One round of watching the cards: what each is like now, and what attempts on it are to know. Pure: the look, the
//! driver's reports, whose processes are whose and the time are arguments; only what earlier rounds saw is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use vram::Bytes;

use super::fault::{Reach, Told, reach};
use super::held::{evictable, held};
use super::returned::{self, Returned};
use super::sampler::{Attempts, Seen, State};
use super::spill::Spilling;
use super::{Fault, Found, Look};
use crate::config::DeviceConfig;

/// Smaller changes are noise, and each change makes the coordinator look again.
const GRAIN: u64 = 1 << 20;
/// So many rounds without it, and a card is gone: one may be a driver that is busy.
const GONE_ROUNDS: u32 = 2;

const GONE: &str = "the driver does not show it any more: it may have fallen off the bus; look at `dmesg`, at its seat and its power";

/// What is remembered of one device.
#[derive(Clone, Debug, Default)]
struct Card {
    state: State,
    /// As it was last seen.
    found: Option<Found>,
    /// Rounds in a row without it.
    gone: u32,
    returned: Returned,
    spilling: Spilling,
}

pub struct Rounds {
    devices: Vec<DeviceConfig>,
    cards: BTreeMap<String, Card>,
}

impl Rounds {
    #[must_use]
    pub fn new(devices: Vec<DeviceConfig>) -> Self {
        let card = |device: &DeviceConfig| {
            let mut card = Card::default();
            card.state.held = device.held;
            (device.id.clone(), card)
        };
        Self {
            cards: devices.iter().map(card).collect(),
            devices,
        }
    }

    /// What is seen now, and what is to be told to attempts.
    pub fn next(
        &mut self,
        look: &Look,
        faults: &[Fault],
        attempts: &impl Attempts,
        now: Duration,
    ) -> (Seen, Vec<Told>) {
        let busy = attempts.devices();
        let mut told = Vec::new();
        for device in &self.devices {
            let card = self.cards.entry(device.id.clone()).or_default();
            match look.found.iter().find(|found| found.is(&device.id)) {
                Some(found) => {
                    let active = busy.contains(&device.id);
                    card.on_found(found, active, attempts, now);
                    let spilled = card.spilling.see(&found.now, active);
                    told.extend(spilled.filter(|_| device.spills).map(|what| Told {
                        device: device.id.clone(),
                        what,
                        ends: false,
                    }));
                }
                None => told.extend(card.on_missing(device, look)),
            }
        }
        for fault in faults {
            told.extend(self.on_fault(fault));
        }
        let states = self.cards.iter();
        let seen = states.map(|(id, card)| (id.clone(), card.state.clone()));
        (Seen::of(seen.collect()), told)
    }

    fn on_fault(&self, fault: &Fault) -> Vec<Told> {
        let reach = reach(fault.code);
        let is_on = |device: &&DeviceConfig| {
            // One whose driver cannot name it any more was named in an earlier round.
            let found = self
                .cards
                .get(&device.id)
                .and_then(|card| card.found.as_ref());
            found.map_or(device.id == fault.id, |found| {
                found.is(&fault.id) || found.part_of.as_deref() == Some(&fault.id)
            })
        };
        if reach == Reach::Nothing {
            return Vec::new();
        }
        let told = |device: &DeviceConfig| Told {
            device: device.id.clone(),
            what: fault.what.clone(),
            ends: reach == Reach::Card,
        };
        self.devices.iter().filter(is_on).map(told).collect()
    }
}

impl Card {
    fn on_found(&mut self, found: &Found, active: bool, attempts: &impl Attempts, now: Duration) {
        let held = held(
            &found.now,
            |pid| attempts.owner(pid),
            active,
            self.state.held,
        );
        let gives_way = |program: &str| attempts.gives_way(program);
        let (bytes, rules) = evictable(&found.now, |pid| attempts.owner(pid), gives_way);
        let stuck = self.returned.see(&found.now, active, now);
        let mut holders = held.holders;
        if let Some(stuck) = stuck {
            let what = returned::sentence(stuck);
            holders = match holders.as_str() {
                "" => what,
                others => format!("{others}, {what}"),
            };
        }
        self.gone = 0;
        self.found = Some(found.clone());
        self.state = State {
            held: Bytes(held.bytes.0.next_multiple_of(GRAIN)),
            evictable: bytes.min(held.bytes),
            rules,
            holders,
            missing: String::new(),
            stuck: stuck.is_some(),
        };
    }

    fn on_missing(&mut self, device: &DeviceConfig, look: &Look) -> Option<Told> {
        let of_it = look
            .troubles
            .iter()
            .filter(|one| one.backend == device.backend);
        let answers = look.answered.contains(&device.backend);
        if self.found.is_none() && !answers && look.troubles.is_empty() {
            // No driver knows of it yet: what was said at the start still holds.
            self.state.missing.clone_from(&device.missing);
            return None;
        }
        let why = of_it.clone().next().or(look.troubles.first());
        self.state.missing = why.map_or_else(|| GONE.to_owned(), |trouble| trouble.what.clone());
        self.state.holders = String::new();
        let driver_answers = answers && of_it.clone().all(|one| one.one_card);
        // A driver that does not answer at all says nothing of this card: what runs there may go on.
        if self.found.is_none() || !driver_answers {
            return None;
        }
        self.gone += 1;
        (self.gone == GONE_ROUNDS).then(|| Told {
            device: device.id.clone(),
            what: format!("it fell off the bus: {}", self.state.missing),
            ends: true,
        })
    }
}

#[cfg(test)]
mod tests;
