//! Why a job is where it is. What the engine knows is read at once; the replayed peak and the first change to try follow
//! beside its thread, where there is something to explain.

use std::time::Instant;

use jobs::JobId;
use proto::v1::WhyDocument;
use tonic::Status;

use super::Api;
use super::ask::with_life;
use super::plan::search;
use crate::advice::find;
use crate::clock;
use crate::documents;
use crate::engine::{Refusal, State};

impl Api {
    pub async fn why(&self, text: String) -> Result<WhyDocument, Status> {
        let job: JobId = text
            .parse()
            .map_err(|error: jobs::BadId| Refusal::Invalid(error.to_string()))?;
        let look = move |state: &mut State| {
            let number = state.find(job.sweep.as_str())?;
            let at = (clock::now_ms(), Instant::now());
            let why = with_life(state, number, |_, life, open| {
                documents::why(state, number, life, open, (job.trial, job.kind), at)
            })?;
            let why = why.ok_or_else(|| Refusal::NotFound(format!("no job `{text}` is known")))?;
            Ok((why, state.sizes.shared_knowledge()))
        };
        let (why, knowledge) = self.engine.read(look).await?;
        let documents::Why { document, asked } = why;
        let Some(asked) = asked else {
            return Ok(document);
        };
        search(move || {
            let found = find(&asked.snapshot, asked.failed_on, &knowledge);
            documents::explained(document, &asked, &found)
        })
        .await
    }
}
