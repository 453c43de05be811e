//! `sweep why JOB`: why it waits, or why it ended as it did, with the arithmetic. Only reads.

use proto::v1::WhyRequest;

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Say why a job waits or why it ended so, with the arithmetic
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the job: SWEEP/3/train
    pub job: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let job = args.job.clone();
    let document = clients::ask_existing(context, async |clients| {
        clients.sweeps().why(WhyRequest { job }).await
    })
    .await?
    .ok_or_else(|| clients::nothing_there(context, &format!("job `{}`", args.job)))?;
    out::document(context, &document, render::why::text)?;
    Ok(Exit::DONE)
}
