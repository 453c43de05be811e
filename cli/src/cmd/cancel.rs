//! `sweep cancel TARGET`: ends a sweep, trial or job. What has settled stays as it is.

use proto::v1::{CancelReply, CancelRequest};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Cancel a sweep, a trial or a job
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of a sweep (or its name), of a trial (SWEEP/3) or of a job (SWEEP/3/train)
    pub target: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let target = args.target.clone();
    let reply: CancelReply = clients::ask_existing(context, async |clients| {
        clients.sweeps().cancel(CancelRequest { target }).await
    })
    .await?
    .ok_or_else(|| clients::nothing_there(context, &format!("`{}`", args.target)))?;
    out::document(context, &reply, |reply| {
        render::jobs_changed("cancelled", &reply.jobs)
    })?;
    Ok(Exit::DONE)
}
