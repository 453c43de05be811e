//! `sweep show SWEEP`: the whole sweep, every trial, job and attempt. Only reads.

use proto::v1::{ShowRequest, SweepDocument};

use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Show a sweep: every trial, job and attempt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the sweep, or its name for the newest of that name
    pub sweep: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let sweep = args.sweep.clone();
    let document = clients::ask_existing(context, async |clients| {
        clients.sweeps().show(ShowRequest { sweep }).await
    })
    .await?
    .ok_or_else(|| clients::nothing_there(context, &format!("sweep `{}`", args.sweep)))?;
    out::document(context, &document, render::sweep::text)?;
    Ok(Exit::DONE)
}

/// The document of `show --json`, which `run` and `watch` print too.
pub async fn document(clients: &Clients, sweep: &str) -> Result<SweepDocument, Error> {
    let sweep = sweep.to_owned();
    Ok(clients
        .sweeps()
        .show(ShowRequest { sweep })
        .await?
        .into_inner())
}
