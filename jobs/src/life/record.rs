//! What is kept of a sweep: its plan, the attempts of each job, rulings and marks. Facts only; what follows from
//! them is in `state`.

use std::sync::Arc;

use vram::{Bytes, Source, VerdictKind};

use crate::life::event::Mark;
use crate::life::state::Tally;
use crate::{AttemptOutcome, Ending, Kind, Outcome, Plan, SweepId};

/// Where an attempt runs, and what was known when that was decided. Leaves the agent nothing to choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub host: Arc<str>,
    /// Of the host when the decision was made; another generation refuses it.
    pub generation: u64,
    pub devices: Vec<Arc<str>>,
    /// Name of the device, for people.
    pub device_name: Arc<str>,
    /// What arms of a comparison must share.
    pub host_class: Arc<str>,
    pub simulated: bool,
    /// Memory reserved on each device.
    pub grant: Bytes,
    /// Peak allocated, predicted; absent when nothing was known.
    pub predicted: Option<Bytes>,
    pub verdict: VerdictKind,
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub placement: Placement,
    pub placed_at: u64,
    pub state: AttemptState,
    /// How it really ended, told after it had been given up. Evidence, never counted.
    pub late: Option<AttemptOutcome>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttemptState {
    Placed,
    Running {
        since: u64,
    },
    Ended {
        since: Option<u64>,
        at: u64,
        ending: Box<Ending>,
    },
}

impl Attempt {
    #[must_use]
    pub fn is_active(&self) -> bool {
        !matches!(self.state, AttemptState::Ended { .. })
    }

    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.state {
            AttemptState::Ended { ending, .. } => Some(ending),
            _ => None,
        }
    }

    #[must_use]
    pub fn outcome(&self) -> Option<AttemptOutcome> {
        self.ending().map(|ending| ending.outcome)
    }

    #[must_use]
    pub fn started_at(&self) -> Option<u64> {
        match self.state {
            AttemptState::Placed => None,
            AttemptState::Running { since } => Some(since),
            AttemptState::Ended { since, .. } => since,
        }
    }

    #[must_use]
    pub fn ended_at(&self) -> Option<u64> {
        match self.state {
            AttemptState::Ended { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// A settlement that no attempt decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub outcome: Outcome,
    pub reason: Arc<str>,
    pub at: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    pub attempts: Vec<Attempt>,
    pub ruling: Option<Ruling>,
    /// Attempts before this number belong to an earlier try that the user has reset.
    pub counted_from: u32,
    pub cancelled_at: Option<u64>,
}

impl Job {
    /// The attempts that count for retries and for the outcome.
    pub fn counted(&self) -> impl Iterator<Item = &Attempt> {
        let from = self.counted_from;
        self.attempts.iter().filter(move |one| one.number > from)
    }

    #[must_use]
    pub fn active(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|one| one.is_active())
    }

    /// The attempt whose result counts: there is at most one.
    #[must_use]
    pub fn succeeded(&self) -> Option<&Attempt> {
        self.counted()
            .find(|one| one.outcome() == Some(AttemptOutcome::Succeeded))
    }
}

/// A submitted sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub id: SweepId,
    pub submitted_at: u64,
    pub plan: Plan,
    /// One for each trial and stage, in that order.
    pub(crate) jobs: Vec<Job>,
    pub marks: Vec<Mark>,
    pub(crate) tally: Tally,
}

impl Sweep {
    #[must_use]
    pub fn new(id: SweepId, submitted_at: u64, plan: Plan) -> Self {
        let jobs = vec![Job::default(); plan.jobs()];
        let mut sweep = Self {
            id,
            submitted_at,
            plan,
            jobs,
            marks: Vec::new(),
            tally: Tally::default(),
        };
        sweep.tally = sweep.count();
        sweep
    }

    /// The tally from the ground up.
    #[must_use]
    pub fn count(&self) -> Tally {
        let mut tally = Tally::default();
        for (trial, kind, job) in self.all_jobs() {
            tally.begun += u32::try_from(job.attempts.len()).unwrap_or(u32::MAX);
            self.state(trial, kind)
                .iter()
                .for_each(|state| tally.add(state));
        }
        tally
    }

    pub(crate) fn position(&self, trial: u32, kind: Kind) -> Option<usize> {
        let stages = &self.plan.spec.stages;
        let stage = stages.iter().position(|stage| stage.kind == kind)?;
        let index = usize::try_from(trial).ok()?.checked_sub(1)?;
        (index < self.plan.trials.len()).then(|| index * stages.len() + stage)
    }

    #[must_use]
    pub fn job(&self, trial: u32, kind: Kind) -> Option<&Job> {
        self.position(trial, kind).map(|at| &self.jobs[at])
    }

    /// Every job with its trial and kind, in plan order.
    pub fn all_jobs(&self) -> impl Iterator<Item = (u32, Kind, &Job)> {
        let stages = &self.plan.spec.stages;
        self.jobs.iter().enumerate().map(move |(at, job)| {
            let trial = u32::try_from(at / stages.len()).unwrap_or(u32::MAX) + 1;
            (trial, stages[at % stages.len()].kind, job)
        })
    }
}
