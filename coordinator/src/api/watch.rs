//! A sweep as it goes: its state at the start, what happens, its end. A watcher that falls behind loses lines, never
//! the end.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use proto::time::rfc3339;
use proto::v1::{ActiveAttempt, WatchLine, WatchReply};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Api;
use super::ask::with_life;
use crate::documents;
use crate::engine::{Happening, OpenSweep, State};

pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchReply, Status>> + Send>>;

/// Progress is shown this often when nothing else happens.
const PROGRESS: Duration = Duration::from_secs(1);
/// Lines that come together are sent together.
const GATHER: Duration = Duration::from_millis(50);

impl Api {
    pub async fn watch(&self, name: String) -> Result<WatchStream, Status> {
        let look = move |state: &mut State| Ok((state.find(&name)?, state.watch()));
        let (number, feed) = self.engine.read(look).await?;
        let (sender, receiver) = channel(16);
        let api = self.clone();
        tokio::spawn(async move {
            if let Err(error) = api.follow(number, feed, &sender).await {
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn follow(
        &self,
        number: u64,
        mut feed: Receiver<Happening>,
        to: &Sender<Result<WatchReply, Status>>,
    ) -> Result<(), Status> {
        let mut lines = Vec::new();
        loop {
            let mut reply = self.engine.read(move |state| now(state, number)).await?;
            reply.lines = std::mem::take(&mut lines);
            let settled = reply.settled;
            if to.send(Ok(reply)).await.is_err() || settled {
                return Ok(());
            }
            lines = gather(number, &mut feed).await;
        }
    }
}

/// Waits for something to happen to this sweep, then takes what comes with it.
async fn gather(number: u64, feed: &mut Receiver<Happening>) -> Vec<WatchLine> {
    let mut lines = Vec::new();
    let mut until = tokio::time::Instant::now() + PROGRESS;
    loop {
        match tokio::time::timeout_at(until, feed.recv()).await {
            Ok(Ok(one)) if one.sweep == number => {
                if lines.is_empty() {
                    until = tokio::time::Instant::now() + GATHER;
                }
                lines.push(WatchLine {
                    at: rfc3339(one.at),
                    text: one.text,
                    job: one.job,
                    code: one.code.into(),
                });
            }
            Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
            // The engine has ended: the next question to it says so.
            Ok(Err(RecvError::Closed)) => return lines,
            Err(_) => return lines,
        }
    }
}

fn now(state: &mut State, number: u64) -> Result<WatchReply, crate::engine::Refusal> {
    let state = &*state;
    if let Some(open) = state.open.get(&number) {
        return Ok(WatchReply {
            sweep: Some(documents::head(state, &open.record)),
            active: active(state, open),
            ..WatchReply::default()
        });
    }
    with_life(state, number, |record, life, _| WatchReply {
        sweep: Some(documents::head(state, record)),
        settled: true,
        summary: Some(documents::summary(record, life)),
        ..WatchReply::default()
    })
}

fn active(state: &State, open: &OpenSweep) -> Vec<ActiveAttempt> {
    let mut all = Vec::new();
    for host in state.hosts.values() {
        for id in host.active.keys().filter(|id| id.job.sweep == open.life.id) {
            let said = state.live.get(id).unwrap_or_default();
            let job = open.life.job(id.job.trial, id.job.kind);
            let attempt = job.and_then(|job| job.active());
            all.push(ActiveAttempt {
                id: id.to_string(),
                host: host.record.name.clone(),
                device: attempt
                    .map(|one| one.placement.device_name.to_string())
                    .unwrap_or_default(),
                progress: said.progress,
                loss: said.metrics.get("loss").and_then(serde_json::Value::as_f64),
                simulated: host.record.simulated,
            });
        }
    }
    all
}
