//! How much memory each open workload needs on each class of device: the memory model's answers, kept so that a
//! round of scheduling looks them up instead of asking again. Refuses to decide anything with them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use vram::{
    Bytes, DeviceClass, Estimate, Kernels, Knowledge, Made, Mark, Mode, Observation, Origin,
    Source, Stream, Term, Workload,
};

use crate::schedule::{ClassId, NeedId, Sizing};

/// Rows refreshed in one round after something was learned: a long queue is brought up to date over a few rounds.
const REFRESH: usize = 512;

pub struct Sizes {
    /// Shared with those who ask it at length, aside of the engine's thread: what is learned meanwhile goes into a copy.
    knowledge: Arc<Knowledge>,
    /// Counts what was learned: a row of an older edition is stale.
    edition: u64,
    needs: Vec<Need>,
    by_key: HashMap<String, NeedId>,
    classes: Vec<DeviceClass>,
    table: Vec<Vec<Option<Sizing>>>,
    /// Measured step times by workload and class; replaces what the model expects.
    steps: BTreeMap<(String, ClassId), f64>,
}

struct Need {
    workload: Workload,
    /// Where a rehearsal could tell its size: what its recipe is but for the rank, and the rank.
    family: Option<(Arc<str>, u64)>,
    edition: u64,
    /// What this trial's own probe showed on a simulated class. Holds for that trial alone; nothing learns from it.
    shown: BTreeMap<ClassId, Shown>,
}

/// A simulated measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub allocated: Bytes,
    pub reserved: Bytes,
}

impl Sizes {
    pub fn new(knowledge: Knowledge) -> Self {
        Self {
            knowledge: Arc::new(knowledge),
            edition: 0,
            needs: Vec::new(),
            by_key: HashMap::new(),
            classes: Vec::new(),
            table: Vec::new(),
            steps: BTreeMap::new(),
        }
    }

    pub fn need(&mut self, workload: Workload) -> NeedId {
        self.intern(workload.key.clone(), workload, BTreeMap::new())
    }

    /// A need of one trial alone, for what its probe showed on a simulated device.
    pub fn need_shown(
        &mut self,
        base: NeedId,
        whose: &str,
        class: ClassId,
        shown: Shown,
    ) -> NeedId {
        let workload = self.needs[base.index()].workload.clone();
        let mut all = self.needs[base.index()].shown.clone();
        all.insert(class, shown);
        let key = format!("{}\n{whose} {all:?}", workload.key);
        self.intern(key, workload, all)
    }

    fn intern(
        &mut self,
        key: String,
        workload: Workload,
        shown: BTreeMap<ClassId, Shown>,
    ) -> NeedId {
        if let Some(id) = self.by_key.get(&key) {
            return *id;
        }
        let id = NeedId(u32::try_from(self.needs.len()).unwrap_or(u32::MAX));
        self.needs.push(Need {
            family: family(&workload),
            workload,
            edition: self.edition,
            shown,
        });
        self.by_key.insert(key, id);
        let row = (0..self.classes.len()).map(|class| self.size(id, ClassId(class as u32)));
        let row = row.collect();
        self.table.push(row);
        id
    }

    pub fn class(&mut self, class: &DeviceClass) -> ClassId {
        if let Some(id) = self.class_id(class) {
            return id;
        }
        let id = ClassId(u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
        self.classes.push(class.clone());
        for need in 0..self.needs.len() {
            let size = self.size(NeedId(need as u32), id);
            self.table[need].push(size);
        }
        id
    }

    pub fn class_id(&self, class: &DeviceClass) -> Option<ClassId> {
        let at = self.classes.iter().position(|one| one == class)?;
        u32::try_from(at).ok().map(ClassId)
    }

    pub fn classes(&self) -> &[DeviceClass] {
        &self.classes
    }

    pub fn workload(&self, need: NeedId) -> &Workload {
        &self.needs[need.index()].workload
    }

    /// What a rehearsal of this need would be of, and at which rank; `None` where there can be none.
    pub fn family(&self, need: NeedId) -> Option<(&Arc<str>, u64)> {
        let family = self.needs.get(need.index())?.family.as_ref()?;
        Some((&family.0, family.1))
    }

    /// Whether better is known of it on these classes, whose cards have these kernels, than any rehearsal could tell.
    pub fn is_measured(&self, need: NeedId, kernels: Kernels, classes: &BTreeSet<ClassId>) -> bool {
        let row = &self.table[need.index()];
        let measured = |class: &ClassId| {
            row.get(class.index())
                .is_some_and(|size| size.is_some_and(|size| size.source == Source::Measured))
        };
        classes.iter().all(measured)
            || self.knowledge.stream_origin(self.workload(need), kernels) == Some(Origin::Recorded)
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    pub fn shared_knowledge(&self) -> Arc<Knowledge> {
        self.knowledge.clone()
    }

    pub fn table(&self) -> &[Vec<Option<Sizing>>] {
        &self.table
    }

    /// The whole estimate, with its terms.
    pub fn estimate(&self, need: NeedId, class: ClassId) -> Option<Estimate> {
        let entry = &self.needs[need.index()];
        let of_class = &self.classes[class.index()];
        let model = vram::estimate(&entry.workload, of_class, &self.knowledge);
        let Some(shown) = entry.shown.get(&class) else {
            return model;
        };
        let context = model.as_ref().map_or(Bytes::ZERO, |one| one.context);
        Some(Estimate {
            terms: vec![Term {
                name: "peak shown by this trial's probe (simulated)".into(),
                bytes: shown.allocated,
                mark: Mark::Measured,
            }],
            allocated: shown.allocated,
            reserved: shown.reserved,
            context,
            // What two runs of one program differ by (memory-model.md 1.6).
            band: Bytes(shown.reserved.0 / 200),
            source: Source::Measured,
        })
    }

    pub fn step_seconds(&self, need: NeedId, class: ClassId) -> Option<f64> {
        let workload = self.workload(need);
        let measured = self.steps.get(&(workload.key.clone(), class)).copied();
        measured.or_else(|| vram::step_seconds(workload, &self.classes[class.index()]))
    }

    fn size(&self, need: NeedId, class: ClassId) -> Option<Sizing> {
        let estimate = self.estimate(need, class)?;
        Some(Sizing {
            need: estimate.need(),
            band: estimate.band,
            allocated: estimate.allocated,
            source: estimate.source,
            step_seconds: self.step_seconds(need, class),
            offloads: self.workload(need).offloads(&self.classes[class.index()]),
        })
    }

    /// Takes a measurement; `false` when the model refuses it.
    pub fn learn(&mut self, observation: Observation) -> bool {
        let taken = Arc::make_mut(&mut self.knowledge).learn(observation);
        self.edition += u64::from(taken);
        taken
    }

    /// Takes a stream. Sizes do not follow from it before [`Self::count_streams`]: to replay it for every
    /// need takes a while, and is done beside the engine's thread.
    pub fn learn_stream(&mut self, workload: &Workload, made: Made, stream: Stream) -> bool {
        Arc::make_mut(&mut self.knowledge).learn_stream(workload, made, stream)
    }

    /// Lets go of one. What follows from those that are left is to be counted anew.
    pub fn forget_stream(&mut self, workload: &Workload, made: &Made) {
        Arc::make_mut(&mut self.knowledge).forget_stream(workload, made);
    }

    /// From now on the sizes of this family follow from its streams.
    pub fn count_streams(&mut self, family: &str) {
        let of = |need: &Need| {
            need.family
                .as_ref()
                .is_some_and(|(key, _)| &**key == family)
        };
        let rows: Vec<usize> = (0..self.needs.len())
            .filter(|at| of(&self.needs[*at]))
            .collect();
        for at in rows {
            self.refresh_row(at);
        }
    }

    /// What is to be asked of the memory model for all needs of this family, once its streams have changed.
    pub fn asked_of(&self, family: &str) -> (Vec<Workload>, Vec<DeviceClass>) {
        let of = |need: &&Need| {
            need.family
                .as_ref()
                .is_some_and(|(key, _)| &**key == family)
        };
        let needs = self.needs.iter().filter(of);
        (
            needs.map(|need| need.workload.clone()).collect(),
            self.classes.clone(),
        )
    }

    pub fn learn_step(&mut self, need: NeedId, class: ClassId, seconds: f64) {
        let key = (self.workload(need).key.clone(), class);
        self.steps.insert(key, seconds);
        let size = self.size(need, class);
        self.table[need.index()][class.index()] = size;
    }

    /// Brings rows up to date, as many as one round affords.
    pub fn refresh(&mut self) {
        let stale: Vec<usize> = (0..self.needs.len())
            .filter(|at| self.needs[*at].edition != self.edition)
            .take(REFRESH)
            .collect();
        for at in stale {
            self.refresh_row(at);
        }
    }

    fn refresh_row(&mut self, at: usize) {
        let id = NeedId(at as u32);
        self.table[at] = (0..self.classes.len())
            .map(|class| self.size(id, ClassId(class as u32)))
            .collect();
        self.needs[at].edition = self.edition;
    }

    /// With no sweep open nothing refers to a need any more.
    pub fn forget_needs(&mut self) {
        self.needs.clear();
        self.by_key.clear();
        self.table.clear();
    }
}

/// Dense models whose step the kit can run: of a mixture of experts a rehearsal does not know who is busy.
fn family(workload: &Workload) -> Option<(Arc<str>, u64)> {
    let recipe = workload.recipe.as_ref()?;
    let known = recipe.architecture()?.family.is_known();
    let can = known && recipe.seq_len.is_some() && workload.mode != Mode::Bake;
    let (key, rank) = can.then(|| workload.family())??;
    Some((key.into(), rank))
}
