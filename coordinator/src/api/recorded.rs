//! An allocation stream that an attempt left: unpacked here, for the engine has no time for it, then handed to the engine
//! with all that it needs to judge it. Refuses to hold up the session for a stream that is no good: that is an answer too.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::AttemptId;
use jobs::life::Sweep;
use proto::v1;
use tonic::Status;

use super::agents::{Session, blocking};
use crate::engine::{Command, Settled, Taken, Unpacked, open_files, workload};
use crate::store::{Reader, StoreError};

/// A message has at most 16 MiB; a stream of 161,000 events is 1.4 MB.
const STREAM_MAX: usize = 8 << 20;

impl Session {
    pub(super) async fn take_recorded(&self, recorded: v1::Recorded) -> Result<(), Status> {
        let read = move || {
            let unpacked = match (recorded.error.as_str(), recorded.stream.len()) {
                ("", 0..=STREAM_MAX) => Unpacked::read(&recorded.stream),
                ("", _) => Err(format!("it has more than {} MiB", STREAM_MAX >> 20)),
                _ => Err(recorded.message.clone()),
            };
            Ok((Arc::new(recorded), Arc::new(unpacked)))
        };
        let (recorded, unpacked) = blocking(read).await?;
        let mut settled = None;
        // Its sweep may settle between the two questions, and is never open again after that.
        for _ in 0..2 {
            let ask = |reply| Command::Recorded {
                host: self.host.clone(),
                session: self.number,
                recorded: recorded.clone(),
                unpacked: unpacked.clone(),
                settled: settled.take(),
                reply,
            };
            if self.api.engine.ask(ask).await? == Taken::Done {
                return Ok(());
            }
            let (reader, attempt) = (self.api.reader.clone(), recorded.attempt.clone());
            settled = Some(Box::new(
                blocking(move || find(reader.as_ref(), &attempt)).await?,
            ));
        }
        Ok(())
    }
}

/// From the store. What is not there is an attempt of nobody.
fn find(reader: &dyn Reader, attempt: &str) -> Result<Settled, StoreError> {
    let mut found = Settled::default();
    let Ok(id) = attempt.parse::<AttemptId>() else {
        return Ok(found);
    };
    let mut heads = reader.sweeps(0)?.into_iter();
    let head = heads.find(|head| head.id == *id.job.sweep.as_str());
    let kept = match head {
        Some(head) => reader.sweep(head.number)?,
        None => None,
    };
    let Some(kept) = kept else { return Ok(found) };
    let text = reader.file(&kept.sweep)?;
    let attached = open_files(reader, &kept.sweep).unwrap_or_else(|_| BTreeMap::new());
    if let Ok(plan) = jobs::plan::load(&kept.sweep.file_name, &text) {
        let life = Sweep::new(id.job.sweep.clone(), kept.sweep.submitted_ms, plan);
        found.workload = workload(&life, &attached, id.job.trial, id.job.kind).ok();
    }
    let record = kept.attempts.into_iter().find(|one| {
        one.trial == id.job.trial && one.kind == id.job.kind.number() && one.number == id.number
    });
    found.record = record.unwrap_or_default();
    Ok(found)
}
