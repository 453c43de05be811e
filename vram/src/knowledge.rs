//! What has been measured, found by what it was measured of. Order of learning does not matter: everything asked of
//! it is a maximum or a minimum. Refuses what a simulated device shows.

use std::collections::BTreeMap;

use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::footprint::footprint_of;
use crate::learn::{self, Correction, Features, Sample};
use crate::observation::{Observation, Observed};
use crate::offset::Offset;
use crate::recipe::{Quant, Recipe};
use crate::report::ReportRow;
use crate::step::Plan;
use crate::stream::Stream;
use crate::streams::{Made, Origin, Streams};
use crate::{Backend, Bytes, DeviceClass, Kernels, Mode, Workload, seeds};
use crate::{models, planning};

/// Everything learned. Grows by [`Knowledge::learn`] only.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    observations: Vec<Observation>,
    /// The first so many are shipped ones: of another program than any that is rehearsed here.
    shipped: usize,
    by_key: BTreeMap<String, Vec<usize>>,
    /// Runs of known models by family: what corrects the closed form.
    families: BTreeMap<FamilyKey, Family>,
    /// By class of device: fragmentation where it was full, and contexts.
    cards: BTreeMap<DeviceClass, Card>,
    streams: Streams,
}

#[derive(Clone, Debug, Default)]
struct Card {
    fragmentation: Vec<f64>,
    contexts: Vec<Bytes>,
}

/// One program on one vendor's cards: model, backend, mode; int8 apart, whose outliers teach nothing of the others.
type FamilyKey = (Architecture, Backend, Mode, bool);

#[derive(Clone, Debug, Default)]
struct Family {
    members: Vec<(Plan, f64, String)>,
    /// Found when it is first asked for.
    correction: OnceLock<Correction>,
}

/// The measured peaks of one workload on one class of device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peaks {
    pub allocated: Bytes,
    pub reserved: Bytes,
    /// The smallest that was measured: what the band is a share of, so that another measurement never widens it.
    pub least: Bytes,
    pub count: usize,
}

impl Knowledge {
    /// What the project ships: the seed measurements.
    #[must_use]
    pub fn seeds() -> Self {
        let mut knowledge = Self::default();
        for observation in seeds::observations() {
            knowledge.learn(observation);
        }
        knowledge.shipped = knowledge.observations.len();
        knowledge
    }

    /// Refuses what a simulation says: returns whether it was taken.
    pub fn learn(&mut self, observation: Observation) -> bool {
        if observation.class.simulated {
            return false;
        }
        let Ok(workload) = Workload::new(observation.mode, &observation.settings, None) else {
            return false;
        };
        let at = self.observations.len();
        self.join_family(&workload, &observation);
        self.join_card(&observation);
        self.observations.push(observation);
        self.by_key.entry(workload.key).or_default().push(at);
        true
    }

    /// Takes a stream of this workload. Returns whether it was taken: it needs a step. A recorded one goes before a
    /// rehearsed one of the same rank.
    pub fn learn_stream(&mut self, workload: &Workload, made: Made, stream: Stream) -> bool {
        self.streams.learn(workload, made, stream.into())
    }

    /// Lets go of the stream of this workload that `made` describes.
    pub fn forget_stream(&mut self, workload: &Workload, made: &Made) {
        self.streams.forget(workload, made);
    }

    /// Who made the stream, or the two streams, that this workload would be replayed from on cards with these kernels;
    /// `None` without one.
    #[must_use]
    pub fn stream_origin(&self, workload: &Workload, kernels: Kernels) -> Option<Origin> {
        self.streams.origin(workload, kernels)
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// What runs of this model's program had beyond their streams on this class of card; the seeds tell nothing of it,
    /// nor does int8, whose outliers differ from run to run.
    pub(crate) fn offset(&self, workload: &Workload, class: &DeviceClass) -> Option<Offset> {
        let has_no_outliers = |of: &Recipe| of.quant != Quant::Int8;
        let model = workload
            .recipe
            .as_ref()
            .filter(|of| has_no_outliers(of))?
            .architecture()?;
        let ended = self
            .observations
            .get(self.shipped..)?
            .iter()
            .filter(|seen| {
                seen.observed != Observed::Oom
                    && seen.mode == workload.mode
                    && same_class(&seen.class, class)
            });
        let pairs = ended.filter_map(|seen| {
            let other = Workload::new(seen.mode, &seen.settings, None).ok()?;
            let recipe = other.recipe.as_ref()?;
            if recipe.architecture()? != model || !has_no_outliers(recipe) {
                return None;
            }
            let (card, expandable) = (planning::workspace(class), recipe.expandable_segments);
            let replayed = self.streams.need(&other, card, expandable)?.allocated;
            Some((replayed.mib(), seen.allocated?.mib()))
        });
        Offset::learn(pairs)
    }

    /// Peaks of runs that ended or spilled correct the closed form; what ran out of memory only bounds it.
    fn join_family(&mut self, workload: &Workload, seen: &Observation) {
        let (Some(recipe), Some(allocated)) = (&workload.recipe, seen.allocated) else {
            return;
        };
        if seen.observed == Observed::Oom || workload.mode == Mode::Bake {
            return;
        }
        let Some(plan) = planning::plan(recipe, workload.mode, &seen.class) else {
            return;
        };
        if planning::is_reasonable(&plan) {
            let int8 = plan.quant == Quant::Int8;
            let key = (plan.arch.clone(), seen.class.backend, workload.mode, int8);
            let family = self.families.entry(key).or_default();
            family
                .members
                .push((plan, allocated.mib(), seen.source.clone()));
            family.correction = OnceLock::new();
        }
    }

    fn join_card(&mut self, seen: &Observation) {
        let (fragmentation, context) = (seen.fragmentation(), seen.noted.context);
        if fragmentation.is_none() && context.is_none() {
            return;
        }
        let card = self.cards.entry(seen.class.clone()).or_default();
        // Sorted, so that sums and medians do not depend on the order of learning.
        card.fragmentation.extend(fragmentation);
        card.fragmentation.sort_by(f64::total_cmp);
        card.contexts.extend(context);
        card.contexts.sort();
    }

    fn card(&self, class: &DeviceClass) -> Option<&Card> {
        let real = DeviceClass {
            simulated: false,
            ..class.clone()
        };
        self.cards.get(&real)
    }

    /// Reserved over allocated of a full card of this class: `prior` and what was seen, each of one weight.
    pub(crate) fn fragmentation(&self, class: &DeviceClass, prior: f64) -> f64 {
        let seen = self.card(class).map_or(&[][..], |card| &card.fragmentation);
        (prior + seen.iter().sum::<f64>()) / (1.0 + seen.len() as f64)
    }

    /// The median context that probes measured on this class.
    pub(crate) fn context(&self, class: &DeviceClass) -> Option<Bytes> {
        let seen = &self.card(class)?.contexts;
        seen.get(seen.len() / 2).copied()
    }

    /// What was learned of this plan's family, if anything.
    pub(crate) fn correction(
        &self,
        plan: &Plan,
        backend: Backend,
        mode: Mode,
    ) -> Option<&Correction> {
        let family =
            self.families
                .get(&(plan.arch.clone(), backend, mode, plan.quant == Quant::Int8))?;
        Some(family.correction.get_or_init(|| {
            let samples = family
                .members
                .iter()
                .map(|(plan, measured, source)| Sample {
                    features: features(plan),
                    computed: computed_mib(plan),
                    measured: *measured,
                    source: source.clone(),
                });
            Correction::learn(&samples.collect::<Vec<_>>(), prior(mode))
        }))
    }

    /// Sources of the measurements that were kept out of learning, as too far from all others of their family.
    #[must_use]
    pub fn outliers(&self) -> Vec<String> {
        let asked = self.families.keys().cloned();
        let listed = asked.filter_map(|key| {
            let (_, backend, mode, _) = key;
            let family = self.families.get(&key)?;
            let (plan, ..) = family.members.first()?;
            Some(self.correction(plan, backend, mode)?.outliers.clone())
        });
        listed.flatten().collect()
    }

    /// Every measured peak of a known model beside what the closed form and its family's correction say.
    pub(crate) fn compared(&self) -> Vec<ReportRow> {
        let rows = self.observations.iter().filter_map(|seen| {
            let workload = Workload::new(seen.mode, &seen.settings, None).ok()?;
            let recipe = workload.recipe.as_ref()?;
            let plan = planning::plan(recipe, seen.mode, &seen.class)?;
            let measured = seen
                .allocated
                .filter(|_| seen.observed != Observed::Oom && seen.mode != Mode::Bake)?;
            let computed = computed_mib(&plan);
            let correction = self.correction(&plan, seen.class.backend, seen.mode);
            let share = correction.map_or(0.0, |correction| correction.at(&features(&plan)).0);
            Some(ReportRow {
                host: seen.host.clone(),
                family: models::name_of(&plan.arch)
                    .map_or_else(|| recipe.model.clone(), str::to_owned),
                device: seen.class.name.clone(),
                mode: seen.mode,
                backend: seen.class.backend,
                source: seen.source.clone(),
                measured_mib: measured.mib(),
                computed_mib: computed,
                corrected_mib: computed * (1.0 + share),
            })
        });
        rows.collect()
    }

    fn of(&self, workload: &Workload) -> impl Iterator<Item = &Observation> {
        self.of_whom(workload, Whose::Any)
    }

    fn of_whom(&self, workload: &Workload, whose: Whose) -> impl Iterator<Item = &Observation> {
        let found = self.by_key.get(&workload.key);
        let first = match whose {
            Whose::Own => self.shipped,
            Whose::Any => 0,
        };
        found
            .into_iter()
            .flatten()
            .filter(move |at| **at >= first)
            .filter_map(|at| self.observations.get(*at))
    }

    /// The largest peaks measured of this workload on this class of device.
    pub(crate) fn measured(
        &self,
        workload: &Workload,
        class: &DeviceClass,
        whose: Whose,
    ) -> Option<Peaks> {
        self.peaks(workload, whose, |seen| same_class(&seen.class, class))
    }

    /// The same on other classes of the same backend: allocations depend on shapes and kernels, not on the card.
    pub(crate) fn measured_elsewhere(
        &self,
        workload: &Workload,
        backend: Backend,
        whose: Whose,
    ) -> Option<Peaks> {
        self.peaks(workload, whose, |seen| seen.class.backend == backend)
    }

    fn peaks(
        &self,
        workload: &Workload,
        whose: Whose,
        wanted: impl Fn(&Observation) -> bool,
    ) -> Option<Peaks> {
        let mut peaks = Peaks::default();
        for seen in self.of_whom(workload, whose).filter(|seen| wanted(seen)) {
            let (Observed::Ok | Observed::Spilled, Some(allocated)) =
                (seen.observed, seen.allocated)
            else {
                continue;
            };
            peaks.allocated = peaks.allocated.max(allocated);
            let reserved = seen.reserved.unwrap_or_default();
            peaks.least = match peaks.count {
                0 => allocated.max(reserved),
                _ => peaks.least.min(allocated.max(reserved)),
            };
            peaks.reserved = peaks.reserved.max(reserved);
            peaks.count += 1;
        }
        (peaks.count > 0).then_some(peaks)
    }

    /// The most room in which this workload has run out of memory on a card of this backend, where it never ran
    /// to its end in as little.
    pub(crate) fn too_little(
        &self,
        workload: &Workload,
        backend: Backend,
        context: Bytes,
    ) -> Option<Bytes> {
        let here = |seen: &&Observation| seen.class.backend == backend;
        let failed = self
            .of(workload)
            .filter(here)
            .filter(|seen| seen.observed == Observed::Oom);
        let worst = failed.map(|seen| seen.full_at(context)).max()?;
        let mut fitted = self
            .of(workload)
            .filter(here)
            .filter(|seen| seen.observed == Observed::Ok);
        (!fitted.any(|seen| seen.room <= worst)).then_some(worst)
    }
}

/// Whose measurements count: those of the programs that run here, or the shipped ones of another program as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Own,
    Any,
}

/// A simulated card stands for the real one of its name.
pub(crate) fn same_class(one: &DeviceClass, other: &DeviceClass) -> bool {
    one.name == other.name && one.backend == other.backend && one.os == other.os
}

/// What a correction may depend on; tokens and rank are counted against the program's own (7,177 and 112).
pub(crate) fn features(plan: &Plan) -> Features {
    let switch = |on: bool| if on { 1.0 } else { 0.0 };
    [
        1.0,
        plan.tokens() as f64 / 7177.0,
        plan.rank as f64 / 112.0,
        switch(plan.dropout),
        switch(plan.dora),
        switch(!plan.quant.is_kbit()),
    ]
}

/// What is known of a program's distance from the closed form before it has been measured.
pub(crate) fn prior(mode: Mode) -> Features {
    match mode {
        Mode::Train => learn::LONG_RUN,
        Mode::Probe | Mode::Bake => learn::ONE_STEP,
    }
}

pub(crate) fn computed_mib(plan: &Plan) -> f64 {
    let footprint = footprint_of(plan);
    let peak = footprint.peak().map_or(0, |stage| stage.total());
    peak as f64 / crate::MIB as f64
}
