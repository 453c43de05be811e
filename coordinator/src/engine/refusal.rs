//! Why a request was not carried out, in the words its sender reads. `api::status` turns it into a wire status.

use jobs::life::Refused;
use thiserror::Error;

use crate::store::StoreError;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
    /// Right in form, but not now or not here.
    #[error("{0}")]
    Refused(String),
    /// The coordinator is stopping or its store has failed.
    #[error("{0}")]
    Stopped(String),
    /// No room on the coordinator's disk.
    #[error("{0}")]
    DiskFull(String),
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoTrial(_) | Refused::NoJob { .. } | Refused::NoAttempt(_) => {
                Self::NotFound(refused.to_string())
            }
            Refused::WrongState { .. } => Self::Refused(refused.to_string()),
        }
    }
}

impl From<&StoreError> for Refusal {
    fn from(error: &StoreError) -> Self {
        let text = format!("the store failed to {error}");
        match error {
            StoreError::DiskFull { .. } => Self::DiskFull(text),
            _ => Self::Stopped(text),
        }
    }
}
