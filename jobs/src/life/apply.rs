//! The one way to change a sweep. Checks an event against what is known, then takes it whole or refuses it whole.

use crate::life::event::{Applied, Event, Mark, MarkKind, Refused, Scope};
use crate::life::record::{Attempt, AttemptState, Job, Placement, Ruling, Sweep};
use crate::life::state::JobState;
use crate::{AttemptId, AttemptOutcome, Ending, Kind, Outcome};

impl Sweep {
    /// Same sweep, same event, same answer. An event that was applied before changes nothing.
    pub fn apply(&mut self, event: &Event) -> Result<Applied, Refused> {
        match event {
            Event::Placed {
                trial,
                kind,
                placement,
                at,
            } => self.on_placed(*trial, *kind, placement, *at),
            Event::Started { attempt, at } => self.on_started(attempt, *at),
            Event::Ended {
                attempt,
                at,
                ending,
            } => self.on_ended(attempt, *at, ending),
            Event::Ruled {
                trial,
                kind,
                outcome,
                reason,
                at,
            } => self.on_ruled(*trial, *kind, *outcome, reason, *at),
            Event::Marked(mark) => Ok(self.on_mark(*mark)),
        }
    }

    fn on_placed(
        &mut self,
        trial: u32,
        kind: Kind,
        placement: &Placement,
        at: u64,
    ) -> Result<Applied, Refused> {
        let state = self.known_state(trial, kind)?;
        if state != JobState::Ready {
            return Err(wrong(trial, kind, &state, "placed"));
        }
        self.change(trial, kind, |job| {
            let number = job.attempts.len() + 1;
            job.attempts.push(Attempt {
                number: u32::try_from(number).unwrap_or(u32::MAX),
                placement: placement.clone(),
                placed_at: at,
                state: AttemptState::Placed,
                late: None,
            });
        });
        self.tally.begun += 1;
        Ok(Applied::Changed)
    }

    fn on_started(&mut self, attempt: &AttemptId, at: u64) -> Result<Applied, Refused> {
        let found = self.attempt_mut(attempt)?;
        match found.state {
            AttemptState::Placed => {
                found.state = AttemptState::Running { since: at };
                Ok(Applied::Changed)
            }
            AttemptState::Running { .. } | AttemptState::Ended { .. } => Ok(Applied::Already),
        }
    }

    fn on_ended(
        &mut self,
        attempt: &AttemptId,
        at: u64,
        ending: &Ending,
    ) -> Result<Applied, Refused> {
        let found = self.attempt_mut(attempt)?;
        if let AttemptState::Ended { ending: before, .. } = &found.state {
            // Only an attempt that we gave up can have more to say; the first word of any other stands.
            if before.outcome != AttemptOutcome::HostLost || found.late.is_some() {
                return Ok(Applied::Already);
            }
            if ending.outcome == AttemptOutcome::HostLost {
                return Ok(Applied::Already);
            }
            found.late = Some(ending.outcome);
            return Ok(Applied::Late);
        }
        let (kind, number) = (attempt.job.kind, attempt.number);
        self.change(attempt.job.trial, kind, |job| {
            let found = job.attempts.iter_mut().find(|one| one.number == number);
            if let Some(found) = found {
                found.state = AttemptState::Ended {
                    since: found.started_at(),
                    at,
                    ending: Box::new(ending.clone()),
                };
            }
        });
        Ok(Applied::Changed)
    }

    fn on_ruled(
        &mut self,
        trial: u32,
        kind: Kind,
        outcome: Outcome,
        reason: &str,
        at: u64,
    ) -> Result<Applied, Refused> {
        let state = self.known_state(trial, kind)?;
        match state {
            JobState::Ready | JobState::Blocked => {}
            JobState::Settled(before) if before == outcome => return Ok(Applied::Already),
            _ => return Err(wrong(trial, kind, &state, "ruled on")),
        }
        self.change(trial, kind, |job| {
            job.ruling = Some(Ruling {
                outcome,
                reason: reason.into(),
                at,
            });
        });
        Ok(Applied::Changed)
    }

    fn on_mark(&mut self, mark: Mark) -> Applied {
        let touched = self.reach(mark);
        if touched.is_empty() {
            return Applied::Already;
        }
        self.marks.push(mark);
        for (trial, kind) in touched {
            self.change(trial, kind, |job| match mark.kind {
                MarkKind::Cancel => job.cancelled_at = Some(mark.at),
                MarkKind::Retry => {
                    job.counted_from = job.attempts.last().map_or(0, |one| one.number);
                    job.cancelled_at = None;
                    job.ruling = None;
                }
            });
        }
        Applied::Changed
    }

    /// The jobs that a mark would change: open ones for a cancel, badly settled ones for a retry, and those that wait
    /// for another device after one was too small.
    #[must_use]
    pub fn reach(&self, mark: Mark) -> Vec<(u32, Kind)> {
        let trials = match mark.scope {
            Scope::Sweep => 1..=u32::try_from(self.plan.trials.len()).unwrap_or(u32::MAX),
            Scope::Trial(trial) | Scope::Job(trial, _) => trial..=trial,
        };
        let mut reached = Vec::new();
        for trial in trials {
            for kind in self
                .plan
                .kinds()
                .filter(|kind| mark.scope.covers(trial, *kind))
            {
                let Some(job) = self.job(trial, kind) else {
                    continue;
                };
                let state = self.state(trial, kind);
                let open = !matches!(state, Some(JobState::Settled(_)));
                let wanted = match mark.kind {
                    MarkKind::Cancel => open && job.cancelled_at.is_none(),
                    MarkKind::Retry if open => was_too_large(job, state.as_ref()),
                    MarkKind::Retry => can_be_retried(job, state.as_ref()),
                };
                if wanted {
                    reached.push((trial, kind));
                }
            }
        }
        reached
    }

    /// Changes one job and keeps the tally: what a job does can only touch the others of its trial.
    fn change(&mut self, trial: u32, kind: Kind, change: impl FnOnce(&mut Job)) {
        let kinds: Vec<Kind> = self.plan.kinds().collect();
        let states = |sweep: &Self| -> Vec<JobState> {
            let state = |kind: &Kind| sweep.state(trial, *kind);
            kinds.iter().filter_map(state).collect()
        };
        for before in states(self) {
            self.tally.remove(&before);
        }
        if let Some(at) = self.position(trial, kind) {
            change(&mut self.jobs[at]);
        }
        for after in states(self) {
            self.tally.add(&after);
        }
    }

    fn known_state(&self, trial: u32, kind: Kind) -> Result<JobState, Refused> {
        if trial == 0 || trial as usize > self.plan.trials.len() {
            return Err(Refused::NoTrial(trial));
        }
        self.state(trial, kind)
            .ok_or(Refused::NoJob { trial, kind })
    }

    /// For facts that change no job's state; those that do go through `change`.
    fn attempt_mut(&mut self, id: &AttemptId) -> Result<&mut Attempt, Refused> {
        let missing = || Refused::NoAttempt(id.clone());
        if id.job.sweep != self.id {
            return Err(missing());
        }
        let at = self.position(id.job.trial, id.job.kind);
        let attempts = &mut self.jobs[at.ok_or_else(missing)?].attempts;
        attempts
            .iter_mut()
            .find(|one| one.number == id.number)
            .ok_or_else(missing)
    }
}

/// Open because another device may do, after one had too little memory: a retry lets that one be tried again.
fn was_too_large(job: &Job, state: Option<&JobState>) -> bool {
    let last = job.counted().last().and_then(Attempt::outcome);
    state == Some(&JobState::Ready) && last.is_some_and(AttemptOutcome::is_too_large)
}

/// A job that is skipped because of an earlier one comes back by itself when that one is retried.
fn can_be_retried(job: &Job, state: Option<&JobState>) -> bool {
    let badly = !matches!(
        state.and_then(JobState::outcome),
        None | Some(Outcome::Succeeded | Outcome::Skipped)
    );
    badly && (job.cancelled_at.is_some() || job.ruling.is_some() || !job.attempts.is_empty())
}

fn wrong(trial: u32, kind: Kind, state: &JobState, what: &'static str) -> Refused {
    Refused::WrongState {
        trial,
        kind,
        state: state.as_str(),
        what,
    }
}
