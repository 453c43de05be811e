//! An agent dials in: what it holds is compared with what it should hold. Attempts that both know go on, what only
//! we know is sent again or ended, what only it knows is dropped.

use std::collections::BTreeSet;
use std::time::Instant;

use jobs::life::AttemptState;
use jobs::{AttemptId, AttemptOutcome, Ending};
use proto::store::v1::HostRecord;
use proto::v1::coordinator_message::Message;
use proto::v1::{Channel, CoordinatorMessage, HeldAttempt, Offset, Stop, StopReason, Welcome};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use vram::Bytes;

use super::fleet::{Held, Host, Session};
use super::{Refusal, Registered, State, Work};
use crate::store::{self};

impl State {
    pub(super) fn register(
        &mut self,
        record: HostRecord,
        held: &[HeldAttempt],
        sender: UnboundedSender<CoordinatorMessage>,
        at: u64,
        now: Instant,
        work: &mut Work,
    ) -> Result<Registered, Refusal> {
        let name = record.name.clone();
        self.check_name(&record, now)?;
        self.newest_session += 1;
        let close = CancellationToken::new();
        let session = Session {
            number: self.newest_session,
            sender,
            close: close.clone(),
        };
        let number = session.number;
        self.take_host(record, session, at, now, work);
        let (drop, keep) = self.sort_out(&name, held, at, work);
        let generation = self
            .hosts
            .get(&name)
            .map_or(0, |host| host.record.generation);
        let welcome = Message::Welcome(Welcome {
            generation,
            heartbeat_ms: u32::try_from(self.timing.heartbeat.as_millis()).unwrap_or(5000),
            drop,
            offsets: self.offsets(&keep),
            acked: 0,
            protocol: proto::PROTOCOL,
            coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let to = name.clone();
        // First of all that this session hears: `after` runs in order.
        work.after.insert(
            0,
            Box::new(move |state| {
                if let Some(host) = state.hosts.get(&to) {
                    host.send(welcome);
                }
            }),
        );
        work.dirty = true;
        Ok(Registered {
            session: number,
            close,
        })
    }

    fn check_name(&self, record: &HostRecord, now: Instant) -> Result<(), Refusal> {
        let Some(known) = self.hosts.get(&record.name) else {
            return Ok(());
        };
        if known.record.spool != record.spool && known.is_up(now, self.timing.heartbeat) {
            return Err(Refusal::Refused(format!(
                "another agent is connected as host `{}`; give this one another name, or stop the other",
                record.name
            )));
        }
        Ok(())
    }

    fn take_host(
        &mut self,
        mut record: HostRecord,
        session: Session,
        at: u64,
        now: Instant,
        work: &mut Work,
    ) {
        let known = self.hosts.remove(&record.name);
        let mut host = match &known {
            None => {
                record.generation = 1;
                record.registered_ms = at;
                Host::new(record, now)
            }
            Some(before) => {
                let old = &before.record;
                // Another folder is another agent: what the first one held is out of reach.
                let same = old.spool == record.spool;
                record.generation = old.generation + u64::from(!same);
                record.registered_ms = old.registered_ms;
                record.drained = old.drained;
                for device in &mut record.devices {
                    let before = old.devices.iter().find(|one| one.id == device.id);
                    device.quarantine =
                        before.map(|one| one.quarantine.clone()).unwrap_or_default();
                }
                Host::new(record, now)
            }
        };
        for class in &host.classes {
            self.sizes.class(class);
        }
        let grew = known
            .as_ref()
            .is_none_or(|before| before.record.devices.len() != host.record.devices.len());
        if grew {
            self.fleet_grew = now;
        }
        if let Some(mut before) = known {
            before.hang_up();
            host.active = before.active;
            host.faults = before.faults;
            host.total = before.total;
            host.succeeded = before.succeeded;
            // Until its agent has looked again.
            host.recall_packages(&before.stack);
        }
        host.record.seen_ms = at;
        host.session = Some(session);
        work.write(host.record.clone());
        self.hosts.insert(host.record.name.clone(), host);
    }

    /// What to drop, and what goes on.
    fn sort_out(
        &mut self,
        name: &str,
        held: &[HeldAttempt],
        at: u64,
        work: &mut Work,
    ) -> (Vec<String>, Vec<AttemptId>) {
        let holds: BTreeSet<AttemptId> = held
            .iter()
            .filter_map(|one| one.attempt.parse().ok())
            .collect();
        let active: Vec<AttemptId> = match self.hosts.get(name) {
            Some(host) => host.active.keys().cloned().collect(),
            None => Vec::new(),
        };
        let mut keep = Vec::new();
        for id in &active {
            if holds.contains(id) {
                keep.push(id.clone());
                self.stop_if_cancelled(name, id, work);
            } else {
                self.resend_or_end(name, id, at, work);
            }
        }
        let mut drop = Vec::new();
        for one in held {
            let id = one.attempt.parse::<AttemptId>().ok();
            if id.as_ref().is_some_and(|id| active.contains(id)) {
                continue;
            }
            match id {
                // A store that was restored has given its number to another host: two cannot speak of one attempt.
                Some(id) if matches!(self.owner(&id), Ok(Some(owner)) if owner != name) => {
                    drop.push(one.attempt.clone());
                }
                // Its ending is on its way: evidence of an attempt that had been given up.
                Some(id) if one.ended => keep.push(id),
                Some(id) if self.by_id.contains_key(&id.job.sweep) => {
                    stop(name, &id, StopReason::Fenced, work);
                    self.see_off(name, &id);
                    keep.push(id);
                }
                _ => drop.push(one.attempt.clone()),
            }
        }
        (drop, keep)
    }

    /// What was given up holds its devices until its agent says that it has ended: nothing is placed beside it.
    fn see_off(&mut self, name: &str, id: &AttemptId) {
        let number = self.by_id.get(&id.job.sweep);
        let open = number.and_then(|number| self.open.get(number));
        let job = open.and_then(|open| open.life.job(id.job.trial, id.job.kind));
        let known = job.and_then(|job| job.attempts.iter().find(|one| one.number == id.number));
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        let held = match known {
            Some(one) => Held {
                devices: one
                    .placement
                    .devices
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                grant: one.placement.grant,
            },
            // Of a settled sweep: what it holds is not in memory any more, so it may be anything.
            None => Held {
                devices: host
                    .record
                    .devices
                    .iter()
                    .map(|one| one.id.clone())
                    .collect(),
                grant: host
                    .record
                    .devices
                    .iter()
                    .map(|one| Bytes(one.usable_bytes))
                    .max()
                    .unwrap_or_default(),
            },
        };
        host.leaving.insert(id.clone(), held);
    }

    fn stop_if_cancelled(&self, name: &str, id: &AttemptId, work: &mut Work) {
        let number = self.by_id.get(&id.job.sweep);
        let open = number.and_then(|number| self.open.get(number));
        let job = open.and_then(|open| open.life.job(id.job.trial, id.job.kind));
        if job.is_some_and(|job| job.cancelled_at.is_some()) {
            stop(name, id, StopReason::Cancelled, work);
        }
    }

    /// The agent does not have it: the order never arrived, or what it left behind is gone.
    fn resend_or_end(&mut self, name: &str, id: &AttemptId, at: u64, work: &mut Work) {
        let Some(number) = self.by_id.get(&id.job.sweep).copied() else {
            return;
        };
        let Some(open) = self.open.get(&number) else {
            return;
        };
        let job = open.life.job(id.job.trial, id.job.kind);
        let attempt = job.and_then(|job| job.active());
        let generation = self
            .hosts
            .get(name)
            .map_or(0, |host| host.record.generation);
        let undelivered = attempt.is_some_and(|one| {
            one.state == AttemptState::Placed && one.placement.generation == generation
        });
        let cancelled = job.is_some_and(|job| job.cancelled_at.is_some());
        if undelivered && !cancelled {
            self.dispatch(id, work);
            return;
        }
        let (outcome, why) = if cancelled {
            (
                AttemptOutcome::Cancelled,
                "cancelled before its host had it",
            )
        } else {
            (
                AttemptOutcome::Interrupted,
                "its host does not know it any more: the agent's folder was lost or replaced",
            )
        };
        self.end(id, Ending::bare(outcome, why), at, work);
    }

    fn offsets(&self, keep: &[AttemptId]) -> Vec<Offset> {
        let mut offsets = Vec::new();
        for id in keep {
            for (channel, kept) in [
                (Channel::Log, store::Channel::Log),
                (Channel::Report, store::Channel::Report),
            ] {
                // Unreadable counts as nothing here: the agent sends all of it again, and overlaps are ignored.
                let bytes = store::log_size(&self.data, id, kept).unwrap_or(0);
                offsets.push(Offset {
                    attempt: id.to_string(),
                    channel: channel.into(),
                    bytes,
                });
            }
        }
        offsets
    }
}

fn stop(host: &str, id: &AttemptId, reason: StopReason, work: &mut Work) {
    let (host, attempt) = (host.to_owned(), id.to_string());
    work.then(move |state| {
        if let Some(host) = state.hosts.get(&host) {
            host.send(Message::Stop(Stop {
                attempt,
                reason: reason.into(),
            }));
        }
    });
}
