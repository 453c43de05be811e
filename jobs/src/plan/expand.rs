//! From axes to trials.

use thiserror::Error;

use super::Plan;
use crate::spec::Spec;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExpandError {
    pub message: String,
}

/// Trials in file order.
pub fn expand(spec: Spec) -> Result<Plan, ExpandError> {
    Ok(Plan {
        spec,
        trials: Vec::new(),
        skipped: Vec::new(),
    })
}
