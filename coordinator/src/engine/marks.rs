//! A user's later word on a sweep: cancel and retry.

use jobs::life::{Applied, Event, Mark, MarkKind, Scope};
use jobs::{JobId, TrialId};
use proto::convert;
use proto::v1::coordinator_message::Message;
use proto::v1::{Stop, StopReason};

use super::{Refusal, State, Work};
use crate::store::Record;

impl State {
    /// The ids of the jobs that it changes.
    pub(super) fn mark(
        &mut self,
        target: &str,
        kind: MarkKind,
        at: u64,
        work: &mut Work,
    ) -> Result<Vec<String>, Refusal> {
        let (number, scope) = self.target(target)?;
        self.exists(number, scope)?;
        let reopened = self.open_again(number)?;
        let mark = Mark { kind, scope, at };
        let Some(open) = self.open.get_mut(&number) else {
            return Ok(Vec::new());
        };
        let reached = open.life.reach(mark);
        let before: Vec<_> = reached
            .iter()
            .filter(|(trial, kind)| {
                open.life
                    .job(*trial, *kind)
                    .is_some_and(|job| job.ruling.is_some())
            })
            .copied()
            .collect();
        let order = open.order;
        if open.apply(&Event::Marked(mark))? != Applied::Changed {
            self.settle(number, at, work);
            return Ok(Vec::new());
        }
        work.write(convert::mark_record(number, order, &mark));
        if kind == MarkKind::Retry {
            for (trial, kind) in before {
                work.write(Record::ForgetRuling {
                    sweep: number,
                    trial,
                    kind: kind.number(),
                });
            }
        }
        if reopened {
            work.write(open.record.clone());
        }
        let ids = reached
            .iter()
            .map(|(trial, kind)| open.job_id(*trial, *kind).to_string());
        let ids: Vec<String> = ids.collect();
        let word = if kind == MarkKind::Cancel {
            "cancelled"
        } else {
            "requeued"
        };
        for id in &ids {
            work.tell(number, at, id, word, format!("{id} {word} by its user"));
        }
        if kind == MarkKind::Cancel {
            self.stop_attempts(number, &reached, work);
        }
        work.dirty = true;
        self.settle(number, at, work);
        Ok(ids)
    }

    /// A sweep, a trial or a job, by its id.
    pub(crate) fn target(&self, target: &str) -> Result<(u64, Scope), Refusal> {
        if let Ok(job) = target.parse::<JobId>() {
            return Ok((
                self.find(job.sweep.as_str())?,
                Scope::Job(job.trial, job.kind),
            ));
        }
        if let Ok(trial) = target.parse::<TrialId>() {
            return Ok((self.find(trial.sweep.as_str())?, Scope::Trial(trial.index)));
        }
        Ok((self.find(target)?, Scope::Sweep))
    }

    /// A trial or job that the sweep does not have is no typing error to pass over.
    fn exists(&self, number: u64, scope: Scope) -> Result<(), Refusal> {
        let Some(head) = self.heads.get(&number) else {
            return Ok(());
        };
        let trial = match scope {
            Scope::Sweep => return Ok(()),
            Scope::Trial(trial) | Scope::Job(trial, _) => trial,
        };
        if trial > head.trials {
            let why = format!(
                "sweep {} has {} trials, no trial {trial}",
                head.id, head.trials
            );
            return Err(Refusal::NotFound(why));
        }
        let (Some(open), Scope::Job(_, kind)) = (self.open.get(&number), scope) else {
            return Ok(());
        };
        if open.life.job(trial, kind).is_none() {
            let why = format!("the trials of sweep {} have no {kind} job", head.id);
            return Err(Refusal::NotFound(why));
        }
        Ok(())
    }

    fn stop_attempts(&self, number: u64, reached: &[(u32, jobs::Kind)], work: &mut Work) {
        let Some(open) = self.open.get(&number) else {
            return;
        };
        for (trial, kind) in reached {
            let active = open.life.job(*trial, *kind).and_then(|job| job.active());
            let Some(active) = active else { continue };
            let id = open
                .job_id(*trial, *kind)
                .attempt(active.number)
                .to_string();
            let host = active.placement.host.clone();
            work.then(move |state| {
                if let Some(host) = state.hosts.get(&*host) {
                    host.send(Message::Stop(Stop {
                        attempt: id,
                        reason: StopReason::Cancelled.into(),
                    }));
                }
            });
        }
    }

    /// Brings a settled sweep back into memory for a change.
    fn open_again(&mut self, number: u64) -> Result<bool, Refusal> {
        if self.open.contains_key(&number) {
            return Ok(false);
        }
        let records = self
            .reader
            .sweep(number)
            .map_err(|error| Refusal::from(&error))?;
        let mut records =
            records.ok_or_else(|| Refusal::NotFound(format!("sweep {number} is not kept")))?;
        records.sweep.settled_ms = 0;
        records.sweep.state.clear();
        self.reopen(&records)
            .map_err(|error| Refusal::from(&error))?;
        Ok(true)
    }

    /// Writes down that a sweep has settled, and lets go of it.
    pub(super) fn settle(&mut self, number: u64, at: u64, work: &mut Work) {
        let Some(open) = self.open.get_mut(&number) else {
            return;
        };
        let overall = open.life.overall();
        if !overall.is_settled() {
            return;
        }
        open.record.settled_ms = at;
        overall.as_str().clone_into(&mut open.record.state);
        let text = format!("{} {}", open.life.id, overall.as_str());
        work.tell(number, at, "", "settled", text);
        let record = open.record.clone();
        self.heads.insert(number, record.clone());
        work.write(record);
        self.open.remove(&number);
        self.waiting.retain(|key, _| key.sweep != number);
        if self.open.is_empty() {
            self.sizes.forget_needs();
        }
    }
}
