//! `sweep results SWEEP`: one row for each trial, best held-out score first. Only reads.

use proto::v1::{ResultsDocument, ResultsRequest};

use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Show the results of a sweep, best held-out score first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the sweep, or its name for the newest of that name
    pub sweep: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let sweep = args.sweep.clone();
    let document = clients::ask_existing(context, async |clients| {
        clients.sweeps().results(ResultsRequest { sweep }).await
    })
    .await?
    .ok_or_else(|| clients::nothing_there(context, &format!("sweep `{}`", args.sweep)))?;
    out::document(context, &document, render::results::text)?;
    Ok(Exit::DONE)
}

/// The table that ends `run` and `watch`.
pub async fn document(clients: &Clients, sweep: &str) -> Result<ResultsDocument, Error> {
    let sweep = sweep.to_owned();
    Ok(clients
        .sweeps()
        .results(ResultsRequest { sweep })
        .await?
        .into_inner())
}
