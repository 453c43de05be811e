//! A sweep that has not settled, as the engine holds it: its life, its record, and what a round of scheduling asks
//! of it again and again (ready jobs, needs, comparison groups). All of it follows from plan and life.

use std::collections::{BTreeMap, BTreeSet};

use jobs::life::{Applied, Event, JobState, Refused, Sweep};
use jobs::{JobId, Kind, Params};
use proto::store::v1::SweepRecord;
use proto::v1::StagedFile;
use serde_json::Value;
use vram::{RecipeError, Workload};

use super::sizes::Sizes;
use crate::schedule::{JobKey, NeedId};

pub struct OpenSweep {
    pub number: u64,
    pub life: Sweep,
    /// Without the file's text.
    pub record: SweepRecord,
    /// Order of the next event: the one order of this sweep's events, whatever the clocks say.
    pub order: u64,
    pub ready: BTreeSet<(u32, Kind)>,
    /// By trial (from 0), then by stage.
    needs: Vec<NeedId>,
    pub groups: Vec<Group>,
    /// By trial (from 0): its comparison group.
    pub group_of: Vec<u32>,
    /// By trial (from 0): what its placement is bound to.
    pub bounds: Vec<Bound>,
    /// Labels that hosts must have, one list for each dataset and model of the sweep.
    pub requires: Vec<Vec<String>>,
    /// Order of the events that placed and ended each attempt; 0: not yet.
    pub orders: BTreeMap<(u32, Kind, u32), (u64, u64)>,
    /// The `config.json` that travels with the sweep.
    pub model_config: Option<Value>,
    /// By attempt: what became of the allocation stream that it left.
    pub streams: BTreeMap<(u32, Kind, u32), String>,
    /// The files that travel with it, as its agents get them.
    pub files: Vec<StagedFile>,
}

/// What a trial's own values say of where it may go.
pub struct Bound {
    pub host: Option<Box<str>>,
    /// Index into `requires`.
    pub require: u32,
}

/// Trials that differ in the compared axis only.
pub struct Group {
    pub trials: Vec<u32>,
}

/// The workload of one job.
pub fn workload(
    life: &Sweep,
    attached: &BTreeMap<String, Value>,
    trial: u32,
    kind: Kind,
) -> Result<Workload, RecipeError> {
    let plan = &life.plan;
    let mut settings = plan
        .trial(trial)
        .map(|one| plan.settings(one))
        .unwrap_or_default();
    let config = plan.spec.model.as_ref().and_then(|one| one.config.as_ref());
    if let Some(content) = config.and_then(|path| attached.get(path)) {
        settings.insert("model_config".into(), content.clone());
    }
    if kind == Kind::Bake {
        serving(&mut settings, plan, trial);
    }
    let stage = plan.spec.stage(kind).map(|stage| &stage.settings);
    let mode = kind.mode(&settings, stage);
    Workload::new(mode, &settings, plan.spec.place.memory)
}

/// What `[bake]` itself says of memory, unless the trial has another value, and the cards that it is split over.
fn serving(settings: &mut Params, plan: &jobs::Plan, trial: u32) {
    let own = plan.trial(trial).map(|trial| &trial.params);
    let stage = plan.spec.stage(Kind::Bake).map(|stage| &stage.settings);
    for name in vram::SERVING_SETTINGS {
        let given = stage.and_then(|stage| stage.get(name));
        if let Some(value) = given.filter(|_| own.is_none_or(|own| !own.contains_key(name))) {
            settings.insert(name.into(), value.clone());
        }
    }
    if plan.spec.place.gpus > 1 && plan.spec.model.is_some() {
        settings.insert("cards".into(), plan.spec.place.gpus.into());
    }
}

impl OpenSweep {
    pub fn new(
        record: SweepRecord,
        life: Sweep,
        attached: &BTreeMap<String, Value>,
        sizes: &mut Sizes,
    ) -> Result<Self, RecipeError> {
        let model = life.plan.spec.model.as_ref();
        let file = model.and_then(|model| model.config.as_ref());
        let model_config = file.and_then(|path| attached.get(path)).cloned();
        let mut needs = Vec::with_capacity(life.plan.jobs());
        for (trial, kind, _) in life.all_jobs() {
            needs.push(sizes.need(workload(&life, attached, trial, kind)?));
        }
        let (groups, group_of) = groups(&life);
        let (requires, bounds) = bounds(&life);
        let mut open = Self {
            number: record.number,
            life,
            record,
            order: 1,
            ready: BTreeSet::new(),
            needs,
            groups,
            group_of,
            bounds,
            requires,
            orders: BTreeMap::new(),
            model_config,
            streams: BTreeMap::new(),
            files: Vec::new(),
        };
        for trial in 1..=open.trials() {
            open.touch(trial);
        }
        Ok(open)
    }

    pub fn trials(&self) -> u32 {
        u32::try_from(self.life.plan.trials.len()).unwrap_or(u32::MAX)
    }

    /// Applies an event and keeps the index of ready jobs.
    pub fn apply(&mut self, event: &Event) -> Result<Applied, Refused> {
        let applied = self.life.apply(event)?;
        match event {
            Event::Placed { trial, .. } | Event::Ruled { trial, .. } => self.touch(*trial),
            Event::Started { .. } => {}
            Event::Ended { attempt, .. } => self.touch(attempt.job.trial),
            Event::Marked(_) => (1..=self.trials()).for_each(|trial| self.touch(trial)),
        }
        self.order += u64::from(applied == Applied::Changed);
        Ok(applied)
    }

    fn touch(&mut self, trial: u32) {
        let kinds: Vec<Kind> = self.life.plan.kinds().collect();
        for kind in kinds {
            if self.life.state(trial, kind) == Some(JobState::Ready) {
                self.ready.insert((trial, kind));
            } else {
                self.ready.remove(&(trial, kind));
            }
        }
    }

    fn slot(&self, trial: u32, kind: Kind) -> Option<usize> {
        let stages = &self.life.plan.spec.stages;
        let stage = stages.iter().position(|stage| stage.kind == kind)?;
        (trial as usize)
            .checked_sub(1)
            .map(|trial| trial * stages.len() + stage)
    }

    pub fn need(&self, trial: u32, kind: Kind) -> Option<NeedId> {
        self.slot(trial, kind)
            .and_then(|slot| self.needs.get(slot).copied())
    }

    pub fn set_need(&mut self, trial: u32, kind: Kind, need: NeedId) {
        if let Some(slot) = self.slot(trial, kind) {
            self.needs[slot] = need;
        }
    }

    pub fn key(&self, trial: u32, kind: Kind) -> JobKey {
        JobKey {
            sweep: self.number,
            trial,
            kind,
        }
    }

    pub fn job_id(&self, trial: u32, kind: Kind) -> JobId {
        self.life.id.trial(trial).job(kind)
    }

    /// The class that a comparison has begun to train on.
    pub fn pinned(&self, group: &Group) -> Option<&str> {
        let attempts = group.trials.iter().flat_map(|trial| {
            let job = self.life.job(*trial, Kind::Train);
            job.into_iter().flat_map(|job| job.counted())
        });
        attempts
            .filter(|one| {
                !one.outcome()
                    .is_some_and(jobs::AttemptOutcome::is_too_large)
            })
            .min_by_key(|one| one.placed_at)
            .map(|one| &*one.placement.host_class)
    }
}

/// The kind of job whose memory decides where a trial can go: its training, else its first.
pub fn main_kind(life: &Sweep) -> Option<Kind> {
    let kinds: Vec<Kind> = life.plan.kinds().collect();
    let train = kinds.contains(&Kind::Train).then_some(Kind::Train);
    train.or(kinds.first().copied())
}

/// Labels that a trial's hosts must have. The words `dataset` and `model` stand for the labels of the trial's own.
pub fn required(plan: &jobs::Plan, trial: &jobs::Trial) -> Vec<String> {
    let value = |key: &str| own_value(plan, trial, key);
    let named = || {
        plan.spec
            .model
            .as_ref()
            .and_then(|model| model.name.clone())
    };
    let label = |one: &String| match one.as_str() {
        "dataset" => value("dataset").map(|name| format!("dataset:{name}")),
        "model" => value("model")
            .or_else(named)
            .map(|name| format!("model:{name}")),
        _ => None,
    };
    let all = plan.spec.place.require.iter();
    let mut all: Vec<String> = all
        .map(|one| label(one).unwrap_or_else(|| one.clone()))
        .collect();
    // Of its own programs only their author knows what they import.
    if plan.spec.uses_kit() && needs_bitsandbytes(&plan.settings(trial)) {
        all.push("package:bitsandbytes".to_owned());
    }
    all
}

/// Weights of 4 or 8 bits, and the optimizers whose state is one of 8 bits or paged.
fn needs_bitsandbytes(settings: &jobs::Params) -> bool {
    let word = |key: &str| settings.get(key).and_then(Value::as_str).unwrap_or("");
    let optimizer = word("optimizer");
    matches!(word("quant"), "nf4" | "fp4" | "int8")
        || optimizer.contains("8bit")
        || optimizer.contains("paged")
}

fn own_value(plan: &jobs::Plan, trial: &jobs::Trial, key: &str) -> Option<String> {
    let value = trial.params.get(key).or_else(|| plan.spec.recipe.get(key));
    value.and_then(Value::as_str).map(str::to_owned)
}

fn bounds(life: &Sweep) -> (Vec<Vec<String>>, Vec<Bound>) {
    let place = &life.plan.spec.place;
    let mut requires: Vec<Vec<String>> = Vec::new();
    let mut bounds = Vec::with_capacity(life.plan.trials.len());
    for trial in &life.plan.trials {
        let list = required(&life.plan, trial);
        let known = requires.iter().position(|one| *one == list);
        let at = known.unwrap_or_else(|| {
            requires.push(list);
            requires.len() - 1
        });
        bounds.push(Bound {
            host: own_value(&life.plan, trial, "host")
                .or_else(|| place.host.clone())
                .map(Into::into),
            require: u32::try_from(at).unwrap_or(0),
        });
    }
    (requires, bounds)
}

fn groups(life: &Sweep) -> (Vec<Group>, Vec<u32>) {
    let plan = &life.plan;
    let Some(axis) = plan.spec.place.compare.as_ref() else {
        return (Vec::new(), Vec::new());
    };
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<String, u32> = BTreeMap::new();
    let mut group_of = Vec::with_capacity(plan.trials.len());
    for trial in &plan.trials {
        let rest: Params = trial
            .params
            .iter()
            .filter(|(name, _)| *name != axis)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let key = serde_json::to_string(&rest).unwrap_or_default();
        let next = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let at = *known.entry(key).or_insert(next);
        if at == next {
            groups.push(Group { trials: Vec::new() });
        }
        groups[at as usize].trials.push(trial.index);
        group_of.push(at);
    }
    (groups, group_of)
}

#[cfg(test)]
mod tests {
    use vram::{Bytes, CacheQuant};

    use super::*;

    const BAKES: &str = r#"
        [sweep]
        name = "gguf"
        [model]
        name = "qwen3.8-27b"
        [recipe]
        context_len = 4096
        [axes]
        kv_cache = ["f16", "q8_0"]
        [bake]
        run = ["true"]
        context_len = 131072
        gguf_bytes = 15_180_000_000
        kv_cache = "q4_0"
        parallel = 2
        [place]
        gpus = 3
    "#;

    fn of(text: &str, trial: u32) -> Workload {
        let plan = jobs::plan::load("gguf.toml", text.as_bytes()).expect("a plan");
        let life = Sweep::new(jobs::SweepId::new("gguf", "abcdef"), 0, plan);
        workload(&life, &BTreeMap::new(), trial, Kind::Bake).expect("a workload")
    }

    #[test]
    fn what_the_bake_stage_says_of_memory_reaches_the_memory_model() {
        let serving = of(BAKES, 2).serving;
        assert_eq!(of(BAKES, 2).context_len, Some(131_072));
        assert_eq!(serving.gguf, Some(Bytes(15_180_000_000)));
        assert_eq!((serving.parallel, serving.cards), (2, 3));
        // What the trial has of its own goes before.
        assert_eq!(serving.kv_cache, CacheQuant::Q8);
        assert_eq!(of(BAKES, 1).serving.kv_cache, CacheQuant::F16);
        assert_ne!(of(BAKES, 1).key, of(BAKES, 2).key);
    }

    /// Else what was learned of it before would not be found again.
    #[test]
    fn a_program_of_its_own_gets_no_setting_that_it_did_not_give() {
        let text = "[sweep]\nname = \"own\"\n[bake]\nrun = [\"true\"]\n[place]\ngpus = 2\n";
        assert!(!of(text, 1).settings.contains_key("cards"));
    }
}
