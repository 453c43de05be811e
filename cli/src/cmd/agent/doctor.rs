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
use crate::service::{Told, Under};
use crate::{embedded, install, local, out, render};

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
    /// On Windows, as administrator: look from the session of services, through a service for that moment
    #[arg(long)]
    pub in_service: bool,
    /// What that service is told
    #[arg(long, hide = true)]
    pub under: Option<Under>,
    /// Where that service writes what it found
    #[arg(long, hide = true, requires = "under")]
    pub out: Option<PathBuf>,
    /// The kit that was found where that service finds none
    #[arg(long, hide = true, requires = "under")]
    pub kit: Option<PathBuf>,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let examined = if args.in_service {
        from_service(&args, context)?
    } else {
        here(&args, context).await?
    };
    if let Some(file) = &args.out {
        let text = serde_json::to_vec(&examined).unwrap_or_default();
        std::fs::write(file, text)
            .map_err(|source| Error::io("write", file.display().to_string(), source))?;
        return Ok(Exit::DONE);
    }
    out::document(context, &examined, render::doctor::text)?;
    Ok(match examined.state {
        State::Failed => Exit::NOT_SUCCEEDED,
        State::Ok | State::Warning => Exit::DONE,
    })
}

/// The same examination by this program as a service, which is taken away again.
fn from_service(args: &Args, context: &Context) -> Result<Examined, Error> {
    let Some(config) = &args.config else {
        return Err(Error::BadInput(
            "--in-service needs the host file: --config FILE".to_owned(),
        ));
    };
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })
    };
    let file = std::env::temp_dir().join(format!("sweep-doctor-{}.json", std::process::id()));
    let said = |path: &Path| path.display().to_string();
    let mut words = vec!["--data".to_owned(), said(&context.data)];
    if let Some(url) = &context.coordinator {
        words.extend(["--coordinator".to_owned(), url.clone()]);
    }
    words.extend(["agent", "doctor", "--under", "service", "--config"].map(str::to_owned));
    let kit = local::kit_folder(context, None)?;
    words.extend([
        said(&absolute(config)?),
        "--kit".to_owned(),
        said(&kit),
        "--out".to_owned(),
        said(&absolute(&file)?),
    ]);
    let looked = install::look_as_service(&words);
    let read = std::fs::read(&file);
    let _ = std::fs::remove_file(&file);
    looked?;
    let read = read
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok());
    read.ok_or_else(|| {
        Error::Failed("the doctor found nothing to say from the session of services".to_owned())
    })
}

async fn here(args: &Args, context: &Context) -> Result<Examined, Error> {
    // Its manager waits for the word that it runs.
    let _told = args.under.map(|_| Told::ready(|| async {}));
    let config = match &args.config {
        Some(file) => local::read_host(file)?,
        None => {
            HostConfig::this_machine().map_err(|error| Error::BadInput(Error::chain(&error)))?
        }
    };
    let kit = match config.kit.as_ref().or(args.kit.as_ref()) {
        Some(kit) => kit.clone(),
        None => local::kit_folder(context, None)?,
    };
    let name = config.name.clone();
    let folder = context.agent_folder(&name);
    let looked = tokio::task::spawn_blocking(move || examine(&config, &folder, &kit)).await;
    let mut checks =
        looked.map_err(|error| Error::Failed(format!("the examination broke off: {error}")))?;
    checks.push(coordinator(context, &context.agent_folder(&name)).await);
    Ok(Examined::of(&name, checks))
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
