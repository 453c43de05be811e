//! The three kinds of job. Their order is the usual order of a trial.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::spec::Params;

/// Of `step` in `[probe]`: one forward and backward, without autocast and optimizer.
pub(crate) const ONE_STEP: &str = "one-step";
/// The trainer itself, with its optimizer.
pub(crate) const TRAINER: &str = "trainer";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Measures the memory peak of a trial.
    Probe,
    Train,
    /// Evaluates over a case set.
    Bake,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a kind of job (probe, train, bake)")]
pub struct UnknownKind(pub String);

impl Kind {
    pub const ALL: [Self; 3] = [Self::Probe, Self::Train, Self::Bake];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Train => "train",
            Self::Bake => "bake",
        }
    }

    /// What its memory is like: of a trial's settings and its stage's. A probe takes the training's own steps unless its
    /// stage says `step = "one-step"`; a probe of a program of its own is like nothing else.
    #[must_use]
    pub fn mode(self, settings: &Params, stage: Option<&Params>) -> vram::Mode {
        let step = stage.and_then(|stage| stage.get("step"));
        match self {
            Self::Probe if !settings.contains_key("model") => vram::Mode::Probe,
            Self::Probe if step.is_some_and(|step| step == ONE_STEP) => vram::Mode::Probe,
            Self::Probe | Self::Train => vram::Mode::Train,
            Self::Bake => vram::Mode::Bake,
        }
    }

    /// 1, 2, 3: for keys of the store.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}
