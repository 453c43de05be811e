//! `sweep hosts`: the hosts and what their devices have. Only reads.

use proto::v1::{ListHostsReply, ListHostsRequest};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// List the hosts and their devices
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_: Args, context: &Context) -> Result<Exit, Error> {
    let reply = clients::ask_existing(context, async |clients| {
        clients.hosts().list_hosts(ListHostsRequest {}).await
    });
    let reply: ListHostsReply = reply.await?.unwrap_or_default();
    out::document(context, &reply, |reply| render::hosts::text(&reply.hosts))?;
    Ok(Exit::DONE)
}
