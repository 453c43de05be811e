//! One round of scheduling: the state becomes a snapshot, `schedule::decide` answers, and the answer is applied like
//! any other event. This file carries out; it decides nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use jobs::life::{Applied, Event, JobState, Placement};
use jobs::spec::DeviceKind;
use jobs::{AttemptId, Kind};
use proto::convert;
use proto::store::v1::DeviceRecord;
use vram::{Bytes, DeviceLoad};

use super::fleet::{Held, Host};
use super::{OpenSweep, State, Work};
use crate::schedule::{
    self, Arm, Choice, ClassId, DeviceView, GroupId, GroupView, HostView, JobKey, JobView,
    Rehearsal, Ruling, Snapshot,
};

/// Pauses before a job is tried again: doubling from one second, a minute at most.
const BACKOFF_MS: u64 = 1000;
const BACKOFF_MAX_MS: u64 = 60_000;

/// Where a job ran out of memory: (host, device).
pub type Avoided = BTreeMap<JobKey, Vec<(String, String)>>;

impl State {
    pub(super) fn round(&mut self, at: u64, now: Instant, work: &mut Work) {
        if self.on_hold {
            return;
        }
        self.last_round = now;
        self.sizes.refresh();
        self.ask_for_rehearsals(now, work);
        let avoided = self.avoided();
        let decision = {
            let snapshot = self.snapshot(&avoided, at, now, |_| true);
            let decision = schedule::decide(&snapshot, at);
            self.named(&snapshot, decision)
        };
        for (choice, host, devices) in decision.placements {
            self.place(&choice, &host, &devices, at, work);
        }
        for ruling in decision.rulings {
            self.rule(&ruling, at, work);
        }
        self.waiting = decision.waiting.into_iter().collect();
    }

    /// Choices with names for indexes, so that the snapshot can be let go of.
    fn named(&self, snapshot: &Snapshot<'_>, decision: schedule::Decision) -> Named {
        let name = |choice: Choice| {
            let host = &snapshot.hosts[choice.host];
            let ids = choice
                .devices
                .iter()
                .map(|at| host.devices[*at].id.to_owned());
            let ids = ids.collect();
            (choice, host.name.to_owned(), ids)
        };
        Named {
            placements: decision.placements.into_iter().map(name).collect(),
            rulings: decision.rulings,
            waiting: decision.waiting,
        }
    }

    pub(crate) fn avoided(&self) -> Avoided {
        let mut avoided = Avoided::new();
        for open in self.open.values() {
            for (trial, kind) in &open.ready {
                let job = open.life.job(*trial, *kind);
                let bad = job.into_iter().flat_map(|job| job.counted()).filter(|one| {
                    one.outcome()
                        .is_some_and(jobs::AttemptOutcome::is_too_large)
                });
                for one in bad {
                    let at = avoided.entry(open.key(*trial, *kind)).or_default();
                    for device in &one.placement.devices {
                        at.push((one.placement.host.to_string(), device.to_string()));
                    }
                }
            }
        }
        avoided
    }

    /// What the scheduler is told. `wanted` narrows the jobs, for an explanation of one.
    pub(crate) fn snapshot<'a>(
        &'a self,
        avoided: &'a Avoided,
        at: u64,
        now: Instant,
        wanted: impl Fn(JobKey) -> bool,
    ) -> Snapshot<'a> {
        let mut groups = Vec::new();
        let mut views = Vec::new();
        for open in self.open.values() {
            let first = groups.len();
            let grouped =
                !open.groups.is_empty() && open.life.plan.spec.stage(Kind::Train).is_some();
            if grouped && !open.ready.is_empty() {
                groups.extend(open.groups.iter().map(|group| group_view(open, group)));
            }
            for (trial, kind) in &open.ready {
                let key = open.key(*trial, *kind);
                if !wanted(key) {
                    continue;
                }
                let mut view = job_view(open, *trial, *kind, at);
                view.rehearsal = self.awaited(&view);
                view.avoid = avoided.get(&key).map_or(&[], Vec::as_slice);
                if grouped {
                    let own = open.group_of[*trial as usize - 1] as usize;
                    view.group = u32::try_from(first + own).ok().map(GroupId);
                }
                views.push(view);
            }
        }
        Snapshot {
            hosts: self
                .hosts
                .values()
                .map(|host| self.host_view(host, now))
                .collect(),
            jobs: views,
            estimates: self.sizes.table(),
            groups,
            fleet_settled: self.fleet_settled(now),
        }
    }

    /// What it waits for before anything uncertain is done with it.
    fn awaited(&self, view: &JobView<'_>) -> Option<Rehearsal<'_>> {
        if view.key.kind == Kind::Bake {
            return None;
        }
        let next = view.next_need.and_then(|need| self.book.waits(need));
        next.or_else(|| self.book.waits(view.need))
    }

    fn host_view<'a>(&'a self, host: &'a Host, now: Instant) -> HostView<'a> {
        // Each takes a slot of a CPU, and nothing of a GPU.
        let rehearsing = self.book.on(&host.record.name);
        let devices = host
            .record
            .devices
            .iter()
            .enumerate()
            .map(|(at, device)| DeviceView {
                id: &device.id,
                name: &device.name,
                kind: convert::device_kind(device),
                class: self.sizes.class_id(&host.classes[at]).unwrap_or(ClassId(0)),
                class_name: &host.class_names[at],
                spills: device.spills,
                load: load_of(device),
                reserved: host.reserved(&device.id),
                active: host.active_on(&device.id)
                    + match convert::device_kind(device) {
                        DeviceKind::Cpu => rehearsing,
                        DeviceKind::Gpu => 0,
                    },
                slots: device.slots,
                quarantine: (!device.quarantine.is_empty()).then_some(device.quarantine.as_str()),
                holders: &device.holders,
                missing: (!device.missing.is_empty()).then_some(device.missing.as_str()),
                owner: (!device.owner.is_empty()).then_some(device.owner.as_str()),
                speed: device.speed,
                busy_until_ms: None,
            });
        HostView {
            name: &host.record.name,
            generation: host.record.generation,
            up: host.is_up(now, self.timing.heartbeat),
            drained: host.record.drained,
            labels: &host.labels,
            packages_unknown: host.packages_unknown(now),
            class: host.class(),
            devices: devices.collect(),
        }
    }

    fn place(&mut self, choice: &Choice, host: &str, devices: &[String], at: u64, work: &mut Work) {
        let key = choice.job;
        let (Some(open), Some(host)) = (self.open.get_mut(&key.sweep), self.hosts.get_mut(host))
        else {
            return;
        };
        let placement = placement(choice, host, devices);
        let order = open.order;
        let event = Event::Placed {
            trial: key.trial,
            kind: key.kind,
            placement: Box::new(placement),
            at,
        };
        if let Err(error) = open.apply(&event) {
            tracing::error!(?key, %error, "a placement was decided for a job that cannot be placed");
            return;
        }
        let number = open
            .life
            .job(key.trial, key.kind)
            .map_or(0, |job| job.attempts.len());
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let id: AttemptId = open.job_id(key.trial, key.kind).attempt(number);
        open.orders
            .insert((key.trial, key.kind, number), (order, 0));
        host.active.insert(
            id.clone(),
            Held {
                devices: devices.to_vec(),
                grant: choice.grant,
            },
        );
        let simulated = host.record.simulated;
        let newly = simulated && !open.record.simulated;
        open.record.simulated |= simulated;
        if newly {
            work.write(open.record.clone());
            self.heads.insert(open.number, open.record.clone());
        }
        if let Some(record) = open.record_of(&id) {
            let text = format!("{id} placed on {}", super::report::place(&record));
            work.tell(key.sweep, at, &id.job, "placed", text);
            work.write(record);
        }
        self.dispatch(&id, work);
    }

    fn rule(&mut self, ruling: &Ruling, at: u64, work: &mut Work) {
        let key = ruling.job;
        let Some(open) = self.open.get_mut(&key.sweep) else {
            return;
        };
        let order = open.order;
        let event = Event::Ruled {
            trial: key.trial,
            kind: key.kind,
            outcome: ruling.outcome,
            reason: ruling.reason.clone(),
            at,
        };
        match open.apply(&event) {
            Ok(Applied::Changed) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::error!(?key, %error, "a job was ruled on that cannot be");
                return;
            }
        }
        let job = open.life.job(key.trial, key.kind);
        if let Some(kept) = job.and_then(|job| job.ruling.as_ref()) {
            work.write(convert::ruling_record(
                key.sweep, order, key.trial, key.kind, kept,
            ));
        }
        let id = open.job_id(key.trial, key.kind);
        let text = format!("{id} {}: {}", ruling.outcome, ruling.reason);
        work.tell(key.sweep, at, &id, "ruled", text);
        // What follows it may be ready now.
        work.dirty = true;
        self.settle(key.sweep, at, work);
    }
}

/// What a simulated process holds it holds for ever, unless it is a recording that changes: waiting for it to leave
/// would never end.
fn load_of(device: &DeviceRecord) -> DeviceLoad {
    let load = convert::load(device);
    if !device.simulated || device.watched {
        return load;
    }
    DeviceLoad {
        usable: load.room(),
        held: Bytes::ZERO,
    }
}

struct Named {
    placements: Vec<(Choice, String, Vec<String>)>,
    rulings: Vec<Ruling>,
    waiting: Vec<(JobKey, schedule::WaitReason)>,
}

fn placement(choice: &Choice, host: &Host, devices: &[String]) -> Placement {
    let all = host.record.devices.iter().enumerate();
    let chosen: Vec<usize> = all
        .filter(|(_, device)| devices.contains(&device.id))
        .map(|(at, _)| at)
        .collect();
    let names: Vec<&str> = chosen
        .iter()
        .map(|at| host.record.devices[*at].name.as_str())
        .collect();
    let class = chosen
        .first()
        .map_or("", |at| host.class_names[*at].as_str());
    Placement {
        host: host.record.name.as_str().into(),
        generation: host.record.generation,
        devices: devices.iter().map(|id| id.as_str().into()).collect(),
        device_name: names.join(" + ").into(),
        host_class: class.into(),
        simulated: host.record.simulated
            || chosen.iter().any(|at| host.record.devices[*at].simulated),
        grant: choice.grant,
        predicted: choice.predicted,
        verdict: choice.verdict,
        source: choice.source,
    }
}

fn group_view<'a>(open: &'a OpenSweep, group: &super::open::Group) -> GroupView<'a> {
    let arms = group.trials.iter().filter_map(|trial| {
        let state = open.life.state(*trial, Kind::Train)?;
        Some(Arm {
            need: open.need(*trial, Kind::Train)?,
            settled: matches!(state, JobState::Settled(_)),
        })
    });
    GroupView {
        pinned: open.pinned(group),
        arms: arms.collect(),
    }
}

fn job_view(open: &OpenSweep, trial: u32, kind: Kind, at: u64) -> JobView<'_> {
    let spec = &open.life.plan.spec;
    let bound = &open.bounds[trial as usize - 1];
    let stage = spec.stage(kind);
    let next = spec
        .stages
        .iter()
        .find(|one| one.after == Some(kind))
        .map(|one| one.kind);
    let job = open.life.job(trial, kind);
    let last = job.and_then(|job| job.counted().last());
    let model = spec.model.is_some();
    JobView {
        key: open.key(trial, kind),
        priority: spec.priority,
        need: open.need(trial, kind).unwrap_or(schedule::NeedId(0)),
        next_need: next
            .filter(|_| kind == Kind::Probe)
            .and_then(|next| open.need(trial, next)),
        probe: stage
            .filter(|_| kind == Kind::Probe)
            .map(|stage| stage.probe),
        whole_device: !model && spec.place.memory.is_none(),
        require: &open.requires[bound.require as usize],
        device: spec.device(),
        gpus: spec.place.gpus.max(1),
        host: bound.host.as_deref(),
        stay: stays_on(open, trial, kind),
        prefer: last.map(|one| &*one.placement.host),
        avoid: &[],
        group: None,
        after_ms: not_before(open, trial, kind, at),
        rehearsal: None,
    }
}

/// The files of a training lie on the host that did it.
fn stays_on(open: &OpenSweep, trial: u32, kind: Kind) -> Option<&str> {
    if kind != Kind::Bake {
        return None;
    }
    let trained = open.life.job(trial, Kind::Train)?.succeeded()?;
    Some(&trained.placement.host)
}

fn not_before(open: &OpenSweep, trial: u32, kind: Kind, at: u64) -> u64 {
    let job = open.life.job(trial, kind);
    let Some(last) = job.and_then(|job| job.counted().last()) else {
        return 0;
    };
    let at_once =
        |one: jobs::AttemptOutcome| one.is_too_large() || one == jobs::AttemptOutcome::Suspended;
    if last.outcome().is_some_and(at_once) {
        return 0;
    }
    let tries = job.map_or(1, |job| job.counted().count()).min(10);
    let pause = (BACKOFF_MS << (tries - 1)).min(BACKOFF_MAX_MS);
    // Ended in the future: the clock was set back, and how long ago it was is not known. Then there is no pause.
    let ended = last.ended_at().filter(|ended| *ended <= at);
    ended.map_or(0, |ended| ended + pause)
}
