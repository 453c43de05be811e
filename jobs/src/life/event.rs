//! What can happen to a sweep, and the two answers to it: applied or refused. Nothing here changes anything.

use thiserror::Error;

use crate::life::record::Placement;
use crate::{AttemptId, Ending, Kind, Outcome};

/// One thing that happened. Times are Unix milliseconds of the coordinator's clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The scheduler gave a job a place; the attempt's number is the next one of that job.
    Placed {
        trial: u32,
        kind: Kind,
        placement: Box<Placement>,
        at: u64,
    },
    Started {
        attempt: AttemptId,
        at: u64,
    },
    Ended {
        attempt: AttemptId,
        at: u64,
        ending: Box<Ending>,
    },
    /// A job is settled without an attempt deciding it: infeasible, or not needed.
    Ruled {
        trial: u32,
        kind: Kind,
        outcome: Outcome,
        reason: String,
        at: u64,
    },
    Marked(Mark),
}

/// What a user asked for after the submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub kind: MarkKind,
    pub scope: Scope,
    pub at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    Cancel,
    Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Sweep,
    Trial(u32),
    Job(u32, Kind),
}

impl Scope {
    #[must_use]
    pub fn covers(self, trial: u32, kind: Kind) -> bool {
        match self {
            Self::Sweep => true,
            Self::Trial(one) => one == trial,
            Self::Job(one, which) => one == trial && which == kind,
        }
    }
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Changed,
    /// Said before: nothing to write, nothing to send.
    Already,
    /// From an attempt that had been given up. Kept as evidence on that attempt; no job's state has changed.
    Late,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    #[error("trial {0} is not in this sweep")]
    NoTrial(u32),
    #[error("trial {trial} has no {kind} job")]
    NoJob { trial: u32, kind: Kind },
    #[error("attempt {0} is not known")]
    NoAttempt(AttemptId),
    #[error("{trial}/{kind} is {state}, so it cannot be {what}")]
    WrongState {
        trial: u32,
        kind: Kind,
        state: &'static str,
        what: &'static str,
    },
}
