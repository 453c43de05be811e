//! `sweep agent doctor`: examines this host as the agent would find it, in this process and under this user, and whether
//! its coordinator answers. Changes nothing; the exit code is 1 where something failed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::config::HostConfig;
use agent::doctor::{Check, Examined, State, examine};
use tokio::net::TcpStream;

use crate::clients::Clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{embedded, local, out, render};

const PATIENCE: Duration = Duration::from_secs(5);
const UNREACHED: &str =
    "look whether it runs, and whether a firewall is between: curl -v shows how far it comes";

/// Examine this host: folder, disk, resources, devices, Python stack, coordinator; says what to do about each
///
/// Run it as the user, and from the kind of session, that the agent runs in.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Host file [default: this machine with its CPU]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let config = match &args.config {
        Some(file) => local::read_host(file)?,
        None => {
            HostConfig::this_machine().map_err(|error| Error::BadInput(Error::chain(&error)))?
        }
    };
    let kit = match &config.kit {
        Some(kit) => kit.clone(),
        None => local::kit_folder(context, None)?,
    };
    let name = config.name.clone();
    let folder = context.agent_folder(&name);
    let looked = tokio::task::spawn_blocking(move || examine(&config, &folder, &kit)).await;
    let mut checks =
        looked.map_err(|error| Error::Failed(format!("the examination broke off: {error}")))?;
    checks.push(coordinator(context, &context.agent_folder(&name)).await);
    let examined = Examined::of(&name, checks);
    out::document(context, &examined, render::doctor::text)?;
    Ok(match examined.state {
        State::Failed => Exit::NOT_SUCCEEDED,
        State::Ok | State::Warning => Exit::DONE,
    })
}

async fn coordinator(context: &Context, folder: &Path) -> Check {
    let named = context.coordinator.clone();
    let Some(url) = named.or_else(|| embedded::announced(&context.data)) else {
        let says = "none is named, and none runs on this data folder";
        let fix = "sweep coordinator run, or name one with --coordinator";
        return Check::warning("coordinator", says, fix);
    };
    if agent::trust::is_tls(&url) {
        return of_host(url, folder).await;
    }
    match Clients::connect(&url, &context.access).await {
        Ok(_) => Check::ok("coordinator", url),
        Err(error) => Check::failed("coordinator", error.to_string(), UNREACHED),
    }
}

/// A host has no user's token: whether the port answers, and whether this host has a certificate for it.
async fn of_host(url: String, folder: &Path) -> Check {
    let address = url.trim_start_matches("https://").trim_end_matches('/');
    let reached = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await;
    let why = match reached {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    if let Some(why) = why {
        return Check::failed("coordinator", format!("{url}: {why}"), UNREACHED);
    }
    if agent::trust::has_joined(folder) {
        return Check::ok(
            "coordinator",
            format!("{url} answers; this host has a certificate"),
        );
    }
    let fix = "start the agent once with --token-file: sweep token create --join makes a token on the keeper";
    Check::warning(
        "coordinator",
        format!("{url} answers; this host has not joined yet"),
        fix,
    )
}
