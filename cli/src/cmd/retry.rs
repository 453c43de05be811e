//! `sweep retry TARGET`: lets jobs run again that have settled without success. What succeeded stays as it is.

use proto::v1::{RetryReply, RetryRequest};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Run again what did not succeed in a sweep, a trial or a job
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of a sweep (or its name), of a trial (SWEEP/3) or of a job (SWEEP/3/train)
    pub target: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let target = args.target.clone();
    let reply: RetryReply = clients::ask_existing(context, async |clients| {
        clients.sweeps().retry(RetryRequest { target }).await
    })
    .await?
    .ok_or_else(|| clients::nothing_there(context, &format!("`{}`", args.target)))?;
    out::document(context, &reply, |reply| {
        render::jobs_changed("to run again", &reply.jobs)
    })?;
    Ok(Exit::DONE)
}
