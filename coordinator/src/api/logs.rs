//! The log of a job, as far as it is here; with `follow` until the job has settled, over all its attempts.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use jobs::{AttemptId, JobId};
use proto::v1::{LogsReply, LogsRequest};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::ask::with_life;
use super::{Api, status};
use crate::engine::{Refusal, State};
use crate::store::{Channel, read_log};

pub type LogsStream = Pin<Box<dyn Stream<Item = Result<LogsReply, Status>> + Send>>;

const CHUNK: usize = 256 * 1024;
/// The file is looked at this often while it may still grow.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What there is to read now.
struct Newest {
    attempt: Option<AttemptId>,
    attempt_ended: bool,
    job_settled: bool,
}

impl Api {
    pub async fn logs(&self, wanted: LogsRequest) -> Result<LogsStream, Status> {
        let (job, only) = match wanted.job.parse::<AttemptId>() {
            Ok(attempt) => (attempt.job.clone(), Some(attempt)),
            Err(_) => {
                let job: JobId = wanted.job.parse().map_err(|_| {
                    let why = format!(
                        "`{}` is neither a job (sweep/3/train) nor an attempt (sweep/3/train/1)",
                        wanted.job
                    );
                    Refusal::Invalid(why)
                })?;
                (job, None)
            }
        };
        let newest = self.newest(&job, only.as_ref()).await?;
        if newest.attempt.is_none() && !wanted.follow {
            let why = format!("{job} has not been started yet; `sweep why {job}` says why");
            return Err(Refusal::Refused(why).into());
        }
        let (sender, receiver) = channel(4);
        let api = self.clone();
        tokio::spawn(async move {
            if let Err(error) = api.feed(job, only, wanted.follow, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn newest(&self, job: &JobId, only: Option<&AttemptId>) -> Result<Newest, Status> {
        let (job, only) = (job.clone(), only.cloned());
        let look = move |state: &mut State| {
            let number = state.find(job.sweep.as_str())?;
            let missing = || Refusal::NotFound(format!("no job `{job}` is known"));
            let found = with_life(state, number, |_, life, _| {
                let kept = life.job(job.trial, job.kind)?;
                let number = only.as_ref().map(|one| one.number);
                let attempts = kept.attempts.iter();
                let one = match number {
                    Some(number) => attempts.rev().find(|one| one.number == number),
                    None => attempts.last(),
                };
                let id = life.id.trial(job.trial).job(job.kind);
                let settled = matches!(
                    life.state(job.trial, job.kind),
                    Some(jobs::life::JobState::Settled(_))
                );
                Some(Newest {
                    attempt: one.map(|one| id.attempt(one.number)),
                    attempt_ended: one.is_some_and(|one| !one.is_active()),
                    job_settled: settled,
                })
            })?;
            let found = found.ok_or_else(missing)?;
            if let (Some(wanted), None) = (&only, &found.attempt) {
                return Err(Refusal::NotFound(format!("no attempt `{wanted}` is known")));
            }
            Ok(found)
        };
        Ok(self.engine.read(look).await?)
    }

    async fn feed(
        &self,
        job: JobId,
        only: Option<AttemptId>,
        follow: bool,
        to: &Sender<Result<LogsReply, Status>>,
    ) -> Result<(), Status> {
        let mut current: Option<AttemptId> = None;
        let mut offset = 0;
        loop {
            // Asked before reading: what ended before this question has all its bytes here.
            let newest = self.newest(&job, only.as_ref()).await?;
            if newest.attempt != current {
                current.clone_from(&newest.attempt);
                offset = 0;
            }
            if let Some(attempt) = &current
                && !self.pour(attempt, &mut offset, to).await?
            {
                return Ok(());
            }
            let done = newest.attempt_ended && (only.is_some() || newest.job_settled);
            if !follow || done || (newest.job_settled && newest.attempt.is_none()) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Sends all that is there from `offset`. `false` when the reader has gone.
    async fn pour(
        &self,
        attempt: &AttemptId,
        offset: &mut u64,
        to: &Sender<Result<LogsReply, Status>>,
    ) -> Result<bool, Status> {
        loop {
            let (data, id, from) = (self.data.clone(), attempt.clone(), *offset);
            let read = move || read_log(&data, &id, Channel::Log, from, CHUNK);
            let bytes = tokio::task::spawn_blocking(read).await;
            let bytes = bytes.map_err(|_| Status::internal("the reading of a log broke off"))?;
            let bytes = bytes.map_err(|error| status::of_store(&error))?;
            if bytes.is_empty() {
                return Ok(true);
            }
            let reply = LogsReply {
                attempt: if from == 0 {
                    attempt.to_string()
                } else {
                    String::new()
                },
                data: bytes,
            };
            *offset += reply.data.len() as u64;
            if to.send(Ok(reply)).await.is_err() {
                return Ok(false);
            }
        }
    }
}
