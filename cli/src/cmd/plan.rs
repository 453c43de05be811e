//! `sweep plan FILE`: trial x host with the arithmetic, before anything is submitted; with --advise, what would make the
//! trials fit that do not. With a coordinator: for its hosts, by all that it knows; else for the hosts that `sweep run`
//! would start with the same flags, by what the program ships with. Changes nothing.

use std::path::PathBuf;

use proto::v1::{PlanDocument, PlanRequest};

use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::local::Choice;
use crate::pretend::Pretended;
use crate::sweep_file::{self, Loaded};
use crate::{embedded, out, render};

/// Show what each trial needs on each host, before anything is submitted
///
/// With --coordinator, or when a coordinator runs on the data folder: for its hosts. Else for the hosts that
/// `sweep run` would start: those of --fleet or --config, or this machine with its CPU.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sweep file (TOML)
    pub file: PathBuf,
    /// Search what would make trials fit where they are too large or uncertain: changes that leave the training's
    /// arithmetic as it is first, each replayed. Takes some seconds for each recipe
    #[arg(long)]
    pub advise: bool,
    #[command(flatten)]
    pub hosts: Choice,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let loaded = sweep_file::load(&args.file)?;
    let plan = if args.hosts.is_given() || !has_coordinator(context).await {
        let pretended = Pretended::start(&args.hosts.hosts()?).await?;
        let plan = ask(&pretended.clients, request(loaded, args.advise)).await;
        pretended.close().await?;
        plan?
    } else {
        clients::ask(context, async |clients| {
            clients.sweeps().plan(request(loaded, args.advise)).await
        })
        .await?
    };
    out::document(context, &plan, render::plan::text)?;
    Ok(Exit::DONE)
}

async fn has_coordinator(context: &Context) -> bool {
    if context.coordinator.is_some() {
        return true;
    }
    match embedded::announced(&context.data) {
        Some(url) => Clients::connect(&url, &context.access).await.is_ok(),
        None => false,
    }
}

async fn ask(clients: &Clients, request: PlanRequest) -> Result<PlanDocument, Error> {
    Ok(clients.sweeps().plan(request).await?.into_inner())
}

fn request(loaded: Loaded, advise: bool) -> PlanRequest {
    PlanRequest {
        file: Some(loaded.file),
        advise,
    }
}
