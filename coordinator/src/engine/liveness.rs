//! Who is heard of. A blip is not a loss: an agent that returns within the grace time goes on with its attempts; one
//! that does not has them given up and fenced by a new generation. Time here is monotonic.

use std::time::{Duration, Instant};

use jobs::{AttemptId, AttemptOutcome, Ending};
use proto::v1::DeviceState;

use super::{State, Work};

/// A queue is looked at this often even when nothing happens: some reasons to wait end by themselves.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn on_heartbeat(
        &mut self,
        host: &str,
        session: u64,
        devices: &[DeviceState],
        at: u64,
        now: Instant,
        work: &mut Work,
    ) {
        if !self.hears(host, session, now) {
            return;
        }
        let Some(host) = self.hosts.get_mut(host) else {
            return;
        };
        host.record.seen_ms = at;
        for state in devices {
            let device = host
                .record
                .devices
                .iter_mut()
                .find(|one| one.id == state.id);
            let Some(device) = device else {
                continue;
            };
            if device.held_bytes != state.held_bytes
                || device.missing != state.missing
                || device.owner != state.owner
            {
                device.held_bytes = state.held_bytes;
                device.missing.clone_from(&state.missing);
                device.owner.clone_from(&state.owner);
                work.dirty = true;
            }
            device.holders.clone_from(&state.holders);
        }
    }

    pub(super) fn on_gone(&mut self, host: &str, session: u64, work: &mut Work) {
        let Some(host) = self.hosts.get_mut(host) else {
            return;
        };
        if host.session.take_if(|one| one.number == session).is_some() {
            // When it was last heard of is worth a record now that it is not heard of any more.
            work.write(host.record.clone());
            work.dirty = true;
        }
    }

    /// Gives up what has been out of reach for the grace time.
    pub(super) fn watch_over(&mut self, at: u64, now: Instant, work: &mut Work) {
        let (grace, heartbeat) = (self.timing.grace, self.timing.heartbeat);
        let lost: Vec<String> = self
            .hosts
            .values()
            .filter(|host| !host.active.is_empty() && !host.is_up(now, heartbeat))
            .filter(|host| now.duration_since(host.seen) >= grace)
            .map(|host| host.record.name.clone())
            .collect();
        for name in lost {
            self.give_up(&name, at, work);
        }
    }

    fn give_up(&mut self, name: &str, at: u64, work: &mut Work) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        // Whatever still runs there runs for an older generation from now on.
        host.record.generation += 1;
        // Should its connection still stand, it has to dial in again to learn that.
        host.hang_up();
        work.write(host.record.clone());
        let ids: Vec<AttemptId> = host.active.keys().cloned().collect();
        let seconds = self.timing.grace.as_secs();
        tracing::warn!(
            host = name,
            attempts = ids.len(),
            "no word for {seconds} s: its attempts are given up"
        );
        for id in ids {
            let why = format!("no word from host {name} for {seconds} s");
            self.end(&id, Ending::bare(AttemptOutcome::HostLost, why), at, work);
        }
    }

    pub(super) fn round_is_due(&self, now: Instant) -> bool {
        let any = self.open.values().any(|open| !open.ready.is_empty());
        any && now.duration_since(self.last_round) >= LOOK_AGAIN
    }
}
