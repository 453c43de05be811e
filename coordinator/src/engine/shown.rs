//! What an ended attempt has shown of memory and speed. A real one teaches the memory model; a simulated probe holds
//! for its own trial only, and nothing else ever follows from it.

use jobs::{AttemptId, AttemptOutcome, Kind};
use proto::store::v1::ObservationRecord;
use vram::{Bytes, DeviceClass, Mode, Noted, Observation, Observed, Workload};

use super::sizes::Shown;
use super::{State, Work};

impl State {
    pub(super) fn learn_from(&mut self, id: &AttemptId, at: u64, work: &mut Work) {
        let Some(number) = self.by_id.get(&id.job.sweep).copied() else {
            return;
        };
        if let Some(class) = self.class_of(number, id) {
            if class.simulated {
                self.show(number, id, &class);
            } else {
                self.observe(number, id, class, at, work);
            }
        }
    }

    fn class_of(&self, number: u64, id: &AttemptId) -> Option<DeviceClass> {
        let open = self.open.get(&number)?;
        let job = open.life.job(id.job.trial, id.job.kind)?;
        let one = job.attempts.iter().find(|one| one.number == id.number)?;
        let host = self.hosts.get(&*one.placement.host)?;
        let device = one.placement.devices.first()?;
        let at = host
            .record
            .devices
            .iter()
            .position(|known| known.id == **device)?;
        host.classes.get(at).cloned()
    }

    fn observe(
        &mut self,
        number: u64,
        id: &AttemptId,
        class: DeviceClass,
        at: u64,
        work: &mut Work,
    ) {
        let Some(observation) = self.observation(number, id, class.clone()) else {
            return;
        };
        let step = self.step_of(number, id);
        let json = serde_json::to_string(&observation).unwrap_or_default();
        if self.sizes.learn(observation) {
            self.newest_observation += 1;
            work.write(ObservationRecord {
                number: self.newest_observation,
                at_ms: at,
                json,
            });
        }
        let need = self
            .open
            .get(&number)
            .and_then(|open| open.need(id.job.trial, id.job.kind));
        if let (Some(need), Some(seconds), Some(class)) = (need, step, self.sizes.class_id(&class))
        {
            self.sizes.learn_step(need, class, seconds);
        }
    }

    fn step_of(&self, number: u64, id: &AttemptId) -> Option<f64> {
        let job = self
            .open
            .get(&number)?
            .life
            .job(id.job.trial, id.job.kind)?;
        let one = job.attempts.iter().find(|one| one.number == id.number)?;
        one.ending()?.step_seconds
    }

    fn observation(&self, number: u64, id: &AttemptId, class: DeviceClass) -> Option<Observation> {
        let open = self.open.get(&number)?;
        let job = open.life.job(id.job.trial, id.job.kind)?;
        let one = job.attempts.iter().find(|one| one.number == id.number)?;
        let ending = one.ending()?;
        let observed = match ending.outcome {
            AttemptOutcome::Succeeded => Observed::Ok,
            AttemptOutcome::GpuOom => Observed::Oom,
            AttemptOutcome::Spilled => Observed::Spilled,
            _ => return None,
        };
        let allocated = ending.peaks.allocated;
        if allocated.is_none() && observed != Observed::Oom {
            return None;
        }
        let host = self.hosts.get(&*one.placement.host)?;
        let device = host.record.devices.iter().find(|known| {
            one.placement
                .devices
                .first()
                .is_some_and(|first| known.id == **first)
        })?;
        let need = open.need(id.job.trial, id.job.kind)?;
        Some(Observation {
            settings: self.sizes.workload(need).settings.clone(),
            mode: mode_run(self.sizes.workload(need), ending.observation.as_ref()),
            host: host.record.name.clone(),
            class,
            observed,
            allocated,
            reserved: ending.peaks.reserved,
            room: Bytes(device.usable_bytes.saturating_sub(device.held_bytes)),
            source: id.to_string(),
            noted: noted(ending.observation.as_ref()),
        })
    }

    /// A simulated probe stands for the training of its own trial, on its own class of device.
    fn show(&mut self, number: u64, id: &AttemptId, class: &DeviceClass) {
        if id.job.kind != Kind::Probe {
            return;
        }
        let Some(open) = self.open.get_mut(&number) else {
            return;
        };
        let job = open.life.job(id.job.trial, Kind::Probe);
        let one = job.and_then(|job| job.attempts.iter().find(|one| one.number == id.number));
        let ending = one.and_then(|one| one.ending());
        let Some((allocated, ending)) = ending.and_then(|e| Some((e.peaks.allocated?, e))) else {
            return;
        };
        if ending.outcome != AttemptOutcome::Succeeded {
            return;
        }
        let shown = Shown {
            allocated,
            reserved: ending.peaks.reserved.unwrap_or(allocated),
        };
        let class = self.sizes.class(class);
        let trial = id.job.trial;
        if let Some(base) = open.need(trial, Kind::Train) {
            let whose = id.job.trial().to_string();
            let need = self.sizes.need_shown(base, &whose, class, shown);
            open.set_need(trial, Kind::Train, need);
        }
    }

    /// After a restart: the same again from what is kept.
    pub(super) fn show_again(&mut self, number: u64) {
        let Some(open) = self.open.get(&number) else {
            return;
        };
        let mut probes = Vec::new();
        for (trial, kind, job) in open
            .life
            .all_jobs()
            .filter(|(_, kind, _)| *kind == Kind::Probe)
        {
            for one in &job.attempts {
                probes.push(open.job_id(trial, kind).attempt(one.number));
            }
        }
        for id in probes {
            if let Some(class) = self.class_of(number, &id).filter(|class| class.simulated) {
                self.show(number, &id, &class);
            }
        }
    }
}

/// Numbers of an observation by the names of docs/memory-model.md; what is not a size is left out.
/// A step that says whether an optimizer took part is known for what it was, whatever the sweep file calls it.
fn mode_run(planned: &Workload, observation: Option<&serde_json::Value>) -> Mode {
    let steps = observation.and_then(|seen| seen.get("optimizer_steps")?.as_u64());
    match (planned.recipe.is_some(), steps) {
        (true, Some(0)) => Mode::Probe,
        (true, Some(_)) => Mode::Train,
        _ => planned.mode,
    }
}

/// Drivers take 150 to 800 MiB for a process. What is beyond this was taken by others while a program measured.
const LARGEST_CONTEXT: Bytes = Bytes(1500 << 20);

fn noted(observation: Option<&serde_json::Value>) -> Noted {
    let size = |name: &str| {
        let mib = observation?.get(name)?.as_f64()?;
        (mib.is_finite() && mib >= 0.0).then(|| Bytes::from_mib(mib))
    };
    Noted {
        wanted: size("oom_wanted_mib"),
        free: size("oom_free_mib"),
        context: size("context_mib").filter(|context| *context <= LARGEST_CONTEXT),
    }
}
