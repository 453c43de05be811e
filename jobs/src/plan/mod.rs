//! From a spec to its trials: same file, same order, same ids. Nothing here knows a host.

mod config;
mod digest;
mod expand;
mod load;
mod random;
mod resolve;
mod seed;

pub use config::config_json;
pub use expand::{ExpandError, expand};
pub use load::{WrongFile, load, load_with};
pub use resolve::{
    HOST_NAMES, HostValues, Unresolved, resolve, resolve_host, resolve_host_text, resolve_stage,
    resolve_text,
};

use serde_json::Value;

use crate::Kind;
use crate::spec::{Params, Spec};

/// More trials than this are refused, and so are more cells before `[[when]]`.
pub const MOST_TRIALS: u32 = 100_000;

/// What a sweep will do. Trials are numbered from 1 in file order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub spec: Spec,
    pub trials: Vec<Trial>,
    /// Cells that a `[[when]]` dropped, with the reason given there.
    pub skipped: Vec<(Params, String)>,
}

/// One concrete configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub index: u32,
    /// The values of the axes (and of a `set` of `[[when]]`).
    pub params: Params,
}

impl Plan {
    /// The trial's whole configuration: `[model]`, `[recipe]`, then its own values on top. `model` is the name.
    #[must_use]
    pub fn settings(&self, trial: &Trial) -> Params {
        let mut all = self.spec.recipe.clone();
        if let Some(model) = &self.spec.model {
            all.extend(model.settings.clone());
            let name = model.name.as_ref().or(model.config.as_ref());
            all.extend(name.map(|name| ("model".to_owned(), Value::from(name.as_str()))));
        }
        all.extend(trial.params.clone());
        all
    }

    #[must_use]
    pub fn trial(&self, index: u32) -> Option<&Trial> {
        let at = usize::try_from(index.checked_sub(1)?).ok()?;
        self.trials.get(at)
    }

    /// The kinds of job that each trial has, in order.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.spec.stages.iter().map(|stage| stage.kind)
    }

    #[must_use]
    pub fn jobs(&self) -> usize {
        self.trials.len() * self.spec.stages.len()
    }
}
