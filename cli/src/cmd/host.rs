//! `sweep host show|drain|resume|forget NAME`. Draining lets running attempts end; forgetting is for a host that will
//! not come back, and the coordinator refuses it for one that is up.

use std::time::Duration;

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
    Drain(Drain),
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

#[derive(Debug, clap::Args)]
pub struct Drain {
    /// Name of the host
    pub name: String,
    /// Return when nothing runs there any more
    #[arg(long)]
    pub wait: bool,
}

/// How often a host that is being drained is looked at.
const LOOK: Duration = Duration::from_secs(1);

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    let (Verb::Show(Name { name })
    | Verb::Drain(Drain { name, .. })
    | Verb::Resume(Name { name })
    | Verb::Forget(Name { name })) = &verb;
    let open = clients::open_existing(context)
        .await?
        .ok_or_else(|| clients::nothing_there(context, &format!("host `{name}`")))?;
    let mut answer = ask(&open.clients, &verb).await;
    if let (Verb::Drain(Drain { wait: true, .. }), Ok(Some(host))) = (&verb, &mut answer)
        && let Err(error) = until_empty(&open.clients, host, context).await
    {
        answer = Err(error);
    }
    open.close().await?;
    match answer? {
        Some(document) => out::document(context, &document, render::hosts::one)?,
        None => out::document(context, &serde_json::json!({}), |_| {
            format!("forgot {name}")
        })?,
    }
    Ok(Exit::DONE)
}

/// The host is the one without attempts in the end. Its silence is waited out: what runs there runs on.
async fn until_empty(
    clients: &Clients,
    host: &mut HostDocument,
    context: &Context,
) -> Result<(), Error> {
    let mut said = usize::MAX;
    while !host.attempts.is_empty() {
        if host.attempts.len() < said {
            said = host.attempts.len();
            let running = host.attempts.join(", ");
            out::note(context, &format!("waiting for {running}"));
        }
        tokio::time::sleep(LOOK).await;
        let ask = ShowHostRequest {
            host: host.name.clone(),
        };
        *host = clients.hosts().show_host(ask).await?.into_inner();
    }
    Ok(())
}

async fn ask(clients: &Clients, verb: &Verb) -> Result<Option<HostDocument>, Error> {
    let mut hosts = clients.hosts();
    let reply = match verb {
        Verb::Show(Name { name }) => {
            hosts
                .show_host(ShowHostRequest { host: name.clone() })
                .await?
        }
        Verb::Drain(Drain { name, .. }) => {
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
