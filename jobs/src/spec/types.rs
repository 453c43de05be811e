//! The nouns of a sweep file. Every field is checked by `parse`; code that holds a `Spec` checks nothing again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vram::Bytes;

use crate::{AttemptOutcome, Kind};

/// Named values: settings of a trial, axes' values, a stage's own keys.
pub type Params = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub name: String,
    pub about: String,
    pub seed: u64,
    /// Each trial starts from a seed of its own; the arms of a comparison share theirs.
    pub seed_per_trial: bool,
    /// Higher goes first; equal goes by submission.
    pub priority: i32,
    /// Absent for a program of its own that trains no known model.
    pub model: Option<Model>,
    /// `[recipe]`: the fixed settings.
    pub recipe: Params,
    pub axes: Axes,
    pub when: Vec<When>,
    /// In an order in which each stage comes after what it follows.
    pub stages: Vec<Stage>,
    pub place: Place,
    pub retry: Retry,
    /// Files that it names, each once.
    pub files: Vec<NamedFile>,
}

/// A file that travels with the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    pub name: String,
    /// Named as `{file:NAME}`. Else it stands where a word may stand, too, and is a file only where there is one beside
    /// the sweep file.
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Known by name; or absent when `config` says what it is.
    pub name: Option<String>,
    /// Path of a Hugging Face `config.json`, relative to the sweep file; travels as an attachment.
    pub config: Option<String>,
    /// Other keys of `[model]`, e.g. `quant`.
    pub settings: Params,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Axes {
    /// No axes: one trial.
    None,
    /// Every combination; the last axis named in the file varies fastest.
    Grid(Vec<Axis>),
    /// `random = N`: N different cells of the grid (or draws from ranges), chosen by the sweep's seed.
    Random { draws: u32, axes: Vec<Axis> },
    /// `list = [{...}, {...}]`: exactly these.
    List(Vec<Params>),
    /// `zip = true`: the first values together, then the second values ...
    Zip(Vec<Axis>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub name: String,
    pub values: AxisValues,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AxisValues {
    Listed(Vec<Value>),
    /// `{ from = 1e-5, to = 1e-3, scale = "log" | "linear", integer = true }`: only with `random`.
    Range {
        from: f64,
        to: f64,
        log: bool,
        integer: bool,
    },
}

/// `[[when]]`: drops or changes the cells that match.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    /// All must be equal for the cell to match; a list means any of its values.
    pub condition: Params,
    pub action: WhenAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WhenAction {
    /// `skip = "reason"`.
    Skip(String),
    /// `set = { ... }`.
    Set(Params),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub kind: Kind,
    pub after: Option<Kind>,
    /// The program and its arguments, placeholders unresolved. Empty only of a probe whose mode is `none`.
    pub run: Vec<String>,
    pub time_limit: Option<Duration>,
    /// A retry continues from the newest checkpoint.
    pub resume: bool,
    /// Only of a probe.
    pub probe: ProbeMode,
    /// Extra environment, by name; values may hold placeholders.
    pub env: BTreeMap<String, String>,
    /// The stage's other keys (`passes`, `cases`, `guards`, `incumbent` ...), given to its program.
    pub settings: Params,
}

/// When a trial's probe goes to a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeMode {
    /// Only where the verdict without it stays uncertain.
    #[default]
    Rehearse,
    /// Always.
    Card,
    /// Both; the card is always asked.
    Both,
    /// Never: what is uncertain is not placed.
    None,
}

impl ProbeMode {
    #[must_use]
    pub fn always_on_card(self) -> bool {
        matches!(self, Self::Card | Self::Both)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Labels that a host must have; the words `dataset` and `model` stand for the labels `dataset:<the
    /// trial's dataset>` and `model:<its model>`.
    pub require: Vec<String>,
    /// The arms of this axis run on one class of host, so that hardware is no confounder.
    pub compare: Option<String>,
    /// How many devices one attempt gets; always 1 on a CPU.
    pub gpus: u32,
    /// For programs the memory model does not know: what one attempt needs.
    pub memory: Option<Bytes>,
    /// What kind of device it says; `Spec::device` has what that comes to.
    pub device: Option<DeviceChoice>,
    /// Only this host. Also an axis: a key `host` of the trial's cell overrides it.
    pub host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    Cpu,
    Gpu,
}

/// `device` in `[place]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    Only(DeviceKind),
    Any,
}

/// How often a job is tried again, by how its attempt ended. What is not named here is not retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry(pub BTreeMap<AttemptOutcome, u32>);

impl Default for Retry {
    fn default() -> Self {
        Self(BTreeMap::from([
            (AttemptOutcome::GpuFault, 2),
            (AttemptOutcome::HostLost, 3),
            (AttemptOutcome::Interrupted, 3),
        ]))
    }
}

impl Retry {
    #[must_use]
    pub fn limit(&self, outcome: AttemptOutcome) -> u32 {
        self.0.get(&outcome).copied().unwrap_or(0)
    }
}

impl Spec {
    #[must_use]
    pub fn stage(&self, kind: Kind) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.kind == kind)
    }

    /// Whether a program of it is one of the kit, or uses it.
    #[must_use]
    pub fn uses_kit(&self) -> bool {
        let texts = |stage: &Stage| {
            stage
                .run
                .iter()
                .chain(stage.env.values())
                .any(|text| text.contains("{kit}"))
        };
        self.stages.iter().any(texts)
    }

    /// The only kind of device that its jobs may have, if one is: a sweep with a model and without a word on it wants a
    /// GPU.
    #[must_use]
    pub fn device(&self) -> Option<DeviceKind> {
        match self.place.device {
            Some(DeviceChoice::Only(kind)) => Some(kind),
            Some(DeviceChoice::Any) => None,
            None => self.model.as_ref().map(|_| DeviceKind::Gpu),
        }
    }

    /// Files that the sweep file names and that travel with it.
    #[must_use]
    pub fn attachments(&self) -> Vec<String> {
        self.model
            .iter()
            .filter_map(|model| model.config.clone())
            .collect()
    }
}
