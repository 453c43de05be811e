//! What follows from the facts: the state of each job and of the whole sweep. Computed, never stored.

use std::collections::BTreeMap;

use crate::life::record::{Job, Sweep};
use crate::{AttemptId, AttemptOutcome, Kind, Outcome};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waits for an earlier job of its trial.
    Blocked,
    /// Could start now.
    Ready,
    Active(AttemptId),
    Settled(Outcome),
}

impl JobState {
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Blocked | Self::Ready => "waiting",
            Self::Active(_) => "active",
            Self::Settled(_) => "settled",
        }
    }

    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Settled(outcome) => Some(*outcome),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepState {
    Waiting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl SweepState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    #[must_use]
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// How many jobs are in which state. An index over what [`Sweep::state`] says, kept by `apply` for the trial that an
/// event touches, so that a sweep of 100,000 jobs is not counted anew at each event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub open: u32,
    pub active: u32,
    pub settled: BTreeMap<Outcome, u32>,
    /// Attempts ever made.
    pub begun: u32,
}

impl Tally {
    pub(crate) fn add(&mut self, state: &JobState) {
        match state {
            JobState::Blocked | JobState::Ready => self.open += 1,
            JobState::Active(_) => self.active += 1,
            JobState::Settled(outcome) => *self.settled.entry(*outcome).or_default() += 1,
        }
    }

    pub(crate) fn remove(&mut self, state: &JobState) {
        match state {
            JobState::Blocked | JobState::Ready => self.open -= 1,
            JobState::Active(_) => self.active -= 1,
            JobState::Settled(outcome) => {
                let count = self.settled.entry(*outcome).or_default();
                *count -= 1;
                if *count == 0 {
                    self.settled.remove(outcome);
                }
            }
        }
    }
}

impl Sweep {
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// `None` for a job that this sweep does not have.
    #[must_use]
    pub fn state(&self, trial: u32, kind: Kind) -> Option<JobState> {
        let job = self.job(trial, kind)?;
        if let Some(active) = job.active() {
            let id = self.id.trial(trial).job(kind).attempt(active.number);
            return Some(JobState::Active(id));
        }
        if let Some(outcome) = self.own_outcome(job) {
            return Some(JobState::Settled(outcome));
        }
        let after = self.plan.spec.stage(kind).and_then(|stage| stage.after);
        let Some(before) = after else {
            return Some(JobState::Ready);
        };
        Some(match self.state(trial, before)? {
            JobState::Settled(_) if self.passed(trial, before) => JobState::Ready,
            JobState::Settled(_) => JobState::Settled(Outcome::Skipped),
            _ => JobState::Blocked,
        })
    }

    /// Whether what follows this job may start. A job that is skipped because an earlier one failed has not passed.
    fn passed(&self, trial: u32, kind: Kind) -> bool {
        let own = self.job(trial, kind).and_then(|job| self.own_outcome(job));
        own.is_some_and(lets_go_on)
    }

    /// The outcome that the job's own facts decide, if they do. The order of the questions is the rule:
    /// a success counts whatever came after it; then the user's word; then a ruling; then the retry limits.
    fn own_outcome(&self, job: &Job) -> Option<Outcome> {
        if job.succeeded().is_some() {
            return Some(Outcome::Succeeded);
        }
        if job.cancelled_at.is_some() {
            return Some(Outcome::Cancelled);
        }
        if let Some(ruling) = &job.ruling {
            return Some(ruling.outcome);
        }
        let last = job.counted().last().and_then(|one| one.outcome())?;
        // Too large for one device says nothing about the others: placement decides, or rules it infeasible. A
        // suspended run goes on whenever its user likes.
        if last.is_too_large() || last == AttemptOutcome::Suspended {
            return None;
        }
        let tries = job.counted().filter(|one| one.outcome() == Some(last));
        let tries = u32::try_from(tries.count()).unwrap_or(u32::MAX);
        (tries > self.plan.spec.retry.limit(last)).then_some(last.into())
    }

    #[must_use]
    pub fn overall(&self) -> SweepState {
        let tally = &self.tally;
        if tally.active > 0 || (tally.open > 0 && tally.begun > 0) {
            return SweepState::Running;
        }
        if tally.open > 0 {
            return SweepState::Waiting;
        }
        let count = |outcome| tally.settled.get(&outcome).copied().unwrap_or(0);
        let well = count(Outcome::Succeeded) + count(Outcome::Skipped);
        if count(Outcome::Cancelled) > 0 {
            SweepState::Cancelled
        } else if tally.settled.values().sum::<u32>() > well {
            SweepState::Failed
        } else {
            SweepState::Succeeded
        }
    }

    /// 0 when everything asked for was done, 1 when some job did not succeed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.overall() != SweepState::Succeeded)
    }

    /// Outcome of a trial: of its first job that did not go well, else of its last; `None` while open.
    #[must_use]
    pub fn trial_outcome(&self, trial: u32) -> Option<Outcome> {
        let mut last = None;
        for kind in self.plan.kinds() {
            let outcome = self.state(trial, kind)?.outcome()?;
            if !lets_go_on(outcome) {
                return Some(outcome);
            }
            last = Some(outcome);
        }
        last
    }
}

/// What follows may start after it: it succeeded, or it was not needed.
fn lets_go_on(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Succeeded | Outcome::Skipped)
}
