//! `sweep list`: the sweeps, newest first. Only reads.

use proto::v1::{ListReply, ListRequest};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// List the sweeps, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only sweeps that have not settled
    #[arg(long)]
    pub open: bool,
    /// At most this many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let request = ListRequest {
        limit: args.limit,
        digest: None,
        open_only: args.open,
    };
    let reply = clients::ask_existing(context, async |clients| {
        clients.sweeps().list(request).await
    })
    .await?;
    let reply: ListReply = reply.unwrap_or_default();
    out::document(context, &reply, |reply| render::list::text(&reply.sweeps))?;
    Ok(Exit::DONE)
}
