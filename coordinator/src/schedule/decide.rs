//! One scheduling round: each job in its turn is ruled on, placed, or given its reason to wait. What it places counts
//! at once for the jobs after it; nothing that was placed is taken back.

use std::collections::BTreeMap;

use vram::VerdictKind;

use super::compare::Gate;
use super::filter::{Block, admit, admit_class, admit_device, tell};
use super::fleet::{Fleet, Load};
use super::outlook::Prospect;
use super::queue::{Entry, Queue, Shape};
use super::rank::{Bid, Paces, Wanted};
use super::seat::{Seat, seat};
use super::{Choice, Decision, GroupId, JobKey, Ruling, Snapshot, WaitReason};

/// The same snapshot gives the same decision, in whatever order it lists its hosts and jobs.
#[must_use]
pub fn decide(snapshot: &Snapshot<'_>, now_ms: u64) -> Decision {
    let fleet = Fleet::of(snapshot);
    let queue = Queue::of(snapshot, &fleet);
    let loads = fleet.loads();
    let mut round = Round {
        wanted: Wanted::of(&queue, &fleet, &loads, now_ms),
        closed: vec![false; queue.sites.iter().map(|site| site.classes.len()).sum()],
        stuck: vec![None; queue.shapes.len()],
        pins: BTreeMap::new(),
        decision: Decision::default(),
        fleet: &fleet,
        queue: &queue,
        loads,
    };
    for entry in &queue.entries {
        round.settle(entry, now_ms);
    }
    round.decision
}

struct Round<'r, 's> {
    fleet: &'r Fleet<'s>,
    queue: &'r Queue<'s>,
    loads: Vec<Load>,
    wanted: Wanted,
    /// Classes of a site of which no device can be had any more in this round.
    closed: Vec<bool>,
    /// By shape: room only shrinks in a round, so what could not be placed once cannot be placed later.
    stuck: Vec<Option<WaitReason>>,
    /// Chosen in this round.
    pins: BTreeMap<GroupId, u32>,
    decision: Decision,
}

/// What a job found on its candidates.
struct Survey {
    bids: Vec<Bid>,
    /// The block that is nearest to being lifted.
    nearest: Option<(Block, u64, usize)>,
    /// Of the devices that wait only for our own attempts to end: the first to be free, and when.
    coming: (u64, usize),
}

impl Survey {
    fn blocked(&mut self, block: Block, free_at: u64, at: usize) {
        let found = (block, free_at, at);
        self.nearest = Some(self.nearest.map_or(found, |known| known.min(found)));
    }
}

impl Round<'_, '_> {
    fn settle(&mut self, entry: &Entry, now_ms: u64) {
        let waiting = match &self.queue.outlooks[entry.shape].prospect {
            Prospect::Rule(outcome, reason) => {
                self.decision.rulings.push(Ruling {
                    job: entry.key,
                    outcome: *outcome,
                    reason: reason.clone(),
                });
                return;
            }
            Prospect::Wait(reason) => reason.clone(),
            Prospect::Open if entry.after_ms > now_ms => WaitReason::Backoff {
                until_ms: entry.after_ms,
            },
            Prospect::Open => match self.place(entry) {
                Ok(()) => return,
                Err(reason) => reason,
            },
        };
        self.decision.waiting.push((entry.key, waiting));
    }

    fn place(&mut self, entry: &Entry) -> Result<(), WaitReason> {
        if let Some(reason) = &self.stuck[entry.shape] {
            return Err(reason.clone());
        }
        let found = self.find(entry);
        match found {
            Ok(seat) => self.take(entry, seat),
            Err(reason) => {
                self.stuck[entry.shape] = Some(reason.clone());
                return Err(reason);
            }
        }
        Ok(())
    }

    fn find(&mut self, entry: &Entry) -> Result<Seat, WaitReason> {
        let queue = self.queue;
        let shape = &queue.shapes[entry.shape];
        let pin = self.pin(shape);
        let choosing = match queue.comparisons.gate(shape) {
            Gate::Wait {
                unsettled,
                uncertain,
            } if pin.is_none() => {
                return Err(WaitReason::WaitsForArms {
                    unsettled,
                    uncertain,
                });
            }
            Gate::Choose(families) if pin.is_none() => Some(families),
            _ => None,
        };
        let limited = queue.outlooks[entry.shape].families.as_deref();
        let families = pin
            .as_ref()
            .map(std::slice::from_ref)
            .or(choosing)
            .or(limited);
        let survey = self.survey(entry, families, choosing.is_some());
        let loads = &self.loads;
        let found = seat(survey.bids, shape, self.fleet, loads);
        found.ok_or_else(|| {
            let reason = self.reason(shape, families, survey.nearest);
            if shape.gpus > 1 {
                self.keep_together(entry.key, shape, families);
            } else if let Some(load) = self.loads.get_mut(survey.coming.1) {
                load.kept = Some(entry.key);
            }
            reason
        })
    }

    /// Chosen earlier in this round for the job's comparison.
    fn pin(&self, shape: &Shape<'_>) -> Option<u32> {
        let group = shape.group.filter(|_| shape.kind == jobs::Kind::Train)?;
        self.pins.get(&group).copied()
    }

    fn survey(&mut self, entry: &Entry, families: Option<&[u32]>, choosing: bool) -> Survey {
        let (queue, fleet) = (self.queue, self.fleet);
        let shape = &queue.shapes[entry.shape];
        let breadth = queue.outlooks[entry.shape].breadth;
        let mut paces = None;
        let mut survey = Survey {
            bids: Vec::new(),
            nearest: None,
            coming: (u64::MAX, usize::MAX),
        };
        for class in &queue.sites[shape.site].classes {
            let size = shape.size(class.class);
            if let Err(block) = admit_class(shape, families, class.family, size, class.usable) {
                survey.blocked(block, u64::MAX, class.devices[0] as usize);
                continue;
            }
            let closed = self.closed[class.number];
            let mut open = false;
            for at in class.devices.iter().map(|at| *at as usize) {
                let (device, load) = (&fleet.devices[at], &self.loads[at]);
                open |= device.live && load.active < device.view.slots && load.kept.is_none();
                match admit_device(shape, size, device, load) {
                    Ok(opening) => {
                        let paces = paces.get_or_insert_with(|| Paces::of(shape, fleet));
                        survey.bids.push(Bid {
                            at,
                            opening,
                            kept_back: self.wanted.least(entry.bucket, at) < breadth,
                            pace: paces.on(device, load),
                            usable: device.usable,
                        });
                    }
                    Err(block) => {
                        survey.blocked(block, device.free_at, at);
                        if block.is_ours() && load.kept.is_none() {
                            survey.coming = survey.coming.min((device.free_at, at));
                        }
                        // Nothing can be had here any more, and this is the first to be free.
                        if closed && block.is_ours() {
                            break;
                        }
                    }
                }
            }
            self.closed[class.number] |= !open;
        }
        if choosing {
            self.for_all_arms(shape, &mut survey.bids);
        }
        survey
    }

    /// Where a comparison is about to choose, what counts is when its last arm ends: the devices of a class that are
    /// free now run all arms between them.
    fn for_all_arms(&self, shape: &Shape<'_>, bids: &mut [Bid]) {
        let arms = self
            .queue
            .comparisons
            .plan(shape)
            .map_or(1, |plan| plan.unsettled);
        let mut open: BTreeMap<u32, usize> = BTreeMap::new();
        for bid in bids.iter() {
            *open.entry(self.fleet.devices[bid.at].family).or_default() += 1;
        }
        for bid in bids {
            let at_once = open[&self.fleet.devices[bid.at].family] / shape.gpus;
            bid.pace *= f64::from(arms.div_ceil(at_once.max(1) as u32).max(1));
        }
    }

    fn reason(
        &self,
        shape: &Shape<'_>,
        families: Option<&[u32]>,
        nearest: Option<(Block, u64, usize)>,
    ) -> WaitReason {
        let name = families
            .and_then(|some| some.first())
            .and_then(|at| self.fleet.families.get(*at as usize));
        let told = nearest.map(|(block, _, at)| {
            let (device, load) = (&self.fleet.devices[at], &self.loads[at]);
            tell(block, shape, device, load, name.copied())
        });
        told.unwrap_or_else(|| self.short(shape))
    }

    /// Every candidate would take it, but not enough of them on one host.
    fn short(&self, shape: &Shape<'_>) -> WaitReason {
        let first = self
            .queue
            .devices(shape)
            .first()
            .map(|at| &self.fleet.devices[*at as usize]);
        first.map_or(WaitReason::NoHost, |device| WaitReason::TooFewDevices {
            host: device.on.name.to_owned(),
            wanted: shape.gpus as u32,
            has: device.on.devices.len() as u32,
        })
    }

    /// Keeps the devices of the host that will have enough of them first, so that smaller jobs behind it do not fill
    /// them up again and again.
    fn keep_together(&mut self, job: JobKey, shape: &Shape<'_>, families: Option<&[u32]>) {
        let mut coming: Vec<((usize, usize), u64, usize)> = Vec::new();
        for at in self.queue.devices(shape).iter().map(|at| *at as usize) {
            let (device, load) = (&self.fleet.devices[at], &self.loads[at]);
            let place = (device.host, device.class);
            match admit(shape, families, device, load) {
                Ok(_) => coming.push((place, 0, at)),
                Err(block) if block.is_ours() && load.kept.is_none() => {
                    coming.push((place, device.free_at, at));
                }
                Err(_) => {}
            }
        }
        coming.sort_unstable();
        let places = coming.chunk_by(|one, other| one.0 == other.0);
        let enough = places.filter_map(|place| place.get(..shape.gpus));
        let first = enough.min_by_key(|place| place.last().map(|(_, free_at, at)| (*free_at, *at)));
        for (.., at) in first.unwrap_or_default() {
            self.loads[*at].kept = Some(job);
        }
    }

    fn take(&mut self, entry: &Entry, seat: Seat) {
        let shape = &self.queue.shapes[entry.shape];
        let first = &self.fleet.devices[seat.devices[0]];
        for at in &seat.devices {
            let load = &mut self.loads[*at];
            let whole = seat.verdict != VerdictKind::Fits;
            // What is to be measured has the device to itself, also where its grant is less than the room.
            load.reserved = if whole {
                self.fleet.devices[*at].free
            } else {
                load.reserved + seat.grant
            };
            load.active += 1;
        }
        if let (Gate::Choose(_), Some(group)) = (self.queue.comparisons.gate(shape), shape.group) {
            self.pins.entry(group).or_insert_with(|| {
                self.decision
                    .pins
                    .push((group, first.view.class_name.to_owned()));
                first.family
            });
        }
        let sizing = shape.sizing(first.class);
        self.decision.placements.push(Choice {
            job: entry.key,
            host: first.host,
            devices: seat
                .devices
                .iter()
                .map(|at| self.fleet.devices[*at].device)
                .collect(),
            grant: seat.grant,
            verdict: seat.verdict,
            predicted: sizing.map(|known| known.allocated),
            source: sizing.map_or(vram::Source::Unknown, |known| known.source),
            expected_seconds: sizing.and_then(|known| known.step_seconds),
        });
    }
}
