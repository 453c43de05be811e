//! `sweep host show|drain|resume|forget NAME`. Draining lets running attempts end; forgetting is for a host that will
//! not come back, and the coordinator refuses it for one that is up.

use proto::v1::{
    DrainHostRequest, ForgetHostRequest, HostDocument, ResumeHostRequest, ShowHostRequest,
};

use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Show a host, its devices and what runs there
    Show(Name),
    /// Give it no new work; what runs there goes on
    Drain(Name),
    /// Give it work again, and lift the quarantine of its devices
    Resume(Name),
    /// Forget a host that will not come back; its history stays
    Forget(Name),
}

#[derive(Debug, clap::Args)]
pub struct Name {
    /// Name of the host
    pub name: String,
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    let (Verb::Show(Name { name })
    | Verb::Drain(Name { name })
    | Verb::Resume(Name { name })
    | Verb::Forget(Name { name })) = &verb;
    let open = clients::open_existing(context)
        .await?
        .ok_or_else(|| clients::nothing_there(context, &format!("host `{name}`")))?;
    let answer = ask(&open.clients, &verb).await;
    open.close().await?;
    match answer? {
        Some(document) => out::document(context, &document, render::hosts::one)?,
        None => out::document(context, &serde_json::json!({}), |_| {
            format!("forgot {name}")
        })?,
    }
    Ok(Exit::DONE)
}

async fn ask(clients: &Clients, verb: &Verb) -> Result<Option<HostDocument>, Error> {
    let mut hosts = clients.hosts();
    let reply = match verb {
        Verb::Show(Name { name }) => {
            hosts
                .show_host(ShowHostRequest { host: name.clone() })
                .await?
        }
        Verb::Drain(Name { name }) => {
            hosts
                .drain_host(DrainHostRequest { host: name.clone() })
                .await?
        }
        Verb::Resume(Name { name }) => {
            hosts
                .resume_host(ResumeHostRequest { host: name.clone() })
                .await?
        }
        Verb::Forget(Name { name }) => {
            hosts
                .forget_host(ForgetHostRequest { host: name.clone() })
                .await?;
            return Ok(None);
        }
    };
    Ok(Some(reply.into_inner()))
}
