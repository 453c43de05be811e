//! The three kinds of job. Their order is the usual order of a trial.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

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

    /// What the memory model calls it.
    #[must_use]
    pub fn mode(self) -> vram::Mode {
        match self {
            Self::Probe => vram::Mode::Probe,
            Self::Train => vram::Mode::Train,
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
