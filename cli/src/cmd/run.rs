//! `sweep run FILE`: coordinator and agents in this process, submit, follow, results, exit code. An unfinished sweep
//! of the same file goes on instead of a second one. Decides nothing about placement; leaves nothing running behind
//! unless it is killed, and then the same command takes it up again.

use std::path::PathBuf;
use std::time::Duration;

use agent::Leave;
use agent::config::HostConfig;
use coordinator::Running;
use proto::v1::ListRequest;

use super::{submit, watch};
use crate::clients::Clients;
use crate::context::Context;
use crate::embedded;
use crate::error::{Error, Exit};
use crate::follow::{Reconnect, follow};
use crate::local::{self, Choice, Hosts};
use crate::render::progress::Progress;
use crate::signals::Asked;
use crate::staging::Packed;
use crate::sweep_file::{self, Loaded};
use crate::{kit, out};

/// Run a sweep here, from the file to the table of results
///
/// Starts a coordinator on the data folder and the agents of the chosen hosts in this process. An unfinished sweep
/// of the same file goes on where it was, also after a crash. Ctrl-C suspends it; a second Ctrl-C leaves at once.
///
/// {kit} in a sweep file stands for $SWEEP_KIT; else the `kit` folder beside the executable, ../share/sweep/kit, or
/// jobs/kit in a folder above the sweep file, the current folder or the executable.
///
/// With --coordinator the sweep is submitted there and followed; hosts are that coordinator's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sweep file (TOML)
    pub file: PathBuf,
    #[command(flatten)]
    pub hosts: Choice,
    /// Submit a new sweep even if one of the same file is unfinished
    #[arg(long)]
    pub new: bool,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let loaded = sweep_file::load(&args.file)?;
    if let Some(url) = &context.coordinator {
        return elsewhere(&args, loaded, url, context).await;
    }
    let hosts = args.hosts.hosts()?;
    check_kit(&args, &loaded, &hosts)?;
    let mut asked = Asked::listen()?;
    let running = start_coordinator(&args, context).await?;
    let mut here = Here {
        running,
        hosts: None,
        broken: false,
    };
    let done = tokio::select! {
        done = here.work(&args, loaded, hosts, context) => done,
        () = asked.again() => Ok(Done::Asked),
    };
    let stopping = here.stop(done, &args, context);
    tokio::select! {
        exit = stopping => exit,
        // The second time: attempts go on under their shepherds, and the same command takes them up again.
        () = asked.again() => std::process::exit(1),
    }
}

/// A coordinator that runs on the folder already would end with whoever started it.
async fn start_coordinator(args: &Args, context: &Context) -> Result<Running, Error> {
    if coordinator::trust::Trust::is_there(&context.data) {
        return Err(Error::Refused(format!(
            "failed to run here: {} belongs to a coordinator with TLS, whose hosts join it; start it with `sweep \
             coordinator run` and hand the sweep to it with `sweep submit {}`, or give this run a folder of its own with \
             --data DIR",
            context.data.display(),
            args.file.display()
        )));
    }
    let started = embedded::start(&context.data, embedded::ANY_PORT).await;
    started.map_err(|error| match (error, embedded::announced(&context.data)) {
        (Error::Refused(_), Some(url)) => Error::Refused(format!(
            "failed to start here: a coordinator runs on {} at {url}; hand the sweep to it with `sweep submit {}`, \
             or give this run a folder of its own with --data DIR",
            context.data.display(),
            args.file.display()
        )),
        (error, _) => error,
    })
}

/// Simulated hosts run no program, and a host may name a kit of its own.
fn check_kit(args: &Args, loaded: &Loaded, hosts: &[HostConfig]) -> Result<(), Error> {
    let wanted = hosts
        .iter()
        .any(|host| host.kit.is_none() && host.devices.iter().any(|device| !device.simulated));
    if wanted && loaded.plan.spec.uses_kit() && kit::find(Some(&args.file))?.is_none() {
        return Err(kit::missing());
    }
    Ok(())
}

/// What runs in this process.
struct Here {
    running: Running,
    hosts: Option<Hosts>,
    /// The coordinator has ended by itself.
    broken: bool,
}

enum Done {
    Settled(Clients, String),
    Asked,
}

impl Here {
    async fn work(
        &mut self,
        args: &Args,
        loaded: Loaded,
        hosts: Vec<HostConfig>,
        context: &Context,
    ) -> Result<Done, Error> {
        let url = format!("http://{}", self.running.address());
        let kit = local::kit_folder(context, Some(&args.file))?;
        let hosts = self.hosts.insert(Hosts::start(context, hosts, &url, &kit)?);
        hosts.registered().await?;
        self.running.fleet_complete();
        let clients = Clients::connect(&url, &context.access).await?;
        let sweep = begin(&clients, args, loaded, context).await?;
        let mut progress = Progress::new(context).without_reader();
        let same = SameProcess(url);
        let followed = tokio::select! {
            followed = follow(clients, &sweep, &same, &mut progress) => followed,
            error = hosts.failed() => Err(error),
            error = self.running.failed() => {
                self.broken = true;
                Err(embedded::start_error(&error))
            }
        };
        progress.finish();
        Ok(Done::Settled(followed?, sweep))
    }

    /// Prints how it ended, then ends the agents and the coordinator.
    async fn stop(
        self,
        done: Result<Done, Error>,
        args: &Args,
        context: &Context,
    ) -> Result<Exit, Error> {
        if !self.broken {
            self.running.hold();
        }
        let ended = match done {
            Ok(Done::Settled(clients, sweep)) => watch::ending(&clients, context, &sweep).await,
            Ok(Done::Asked) => {
                out::note(context, "suspending what runs; Ctrl-C again leaves at once");
                Err(Error::Suspended(suspended(args)))
            }
            Err(error) => Err(error),
        };
        if let Some(hosts) = self.hosts {
            // Also of other sweeps in the folder: nothing runs on without an agent that watches it.
            hosts.leave(Leave::Suspended).await;
        }
        if !self.broken {
            let stopped = embedded::stop(self.running).await;
            let exit = ended?;
            return stopped.map(|()| exit);
        }
        ended
    }
}

fn suspended(args: &Args) -> String {
    format!(
        "suspended; the same command goes on where it was: sweep run {}{}",
        args.file.display(),
        args.hosts.words()
    )
}

/// The id of the sweep to follow: an unfinished one of the same file, or a new one.
async fn begin(
    clients: &Clients,
    args: &Args,
    loaded: Loaded,
    context: &Context,
) -> Result<String, Error> {
    if !args.new {
        let request = ListRequest {
            limit: 1,
            digest: Some(loaded.digest.clone()),
            open_only: true,
        };
        let open = clients.sweeps().list(request).await?.into_inner();
        if let Some(head) = open.sweeps.into_iter().next() {
            say(context, &format!("continuing {}", head.id))?;
            return Ok(head.id);
        }
    }
    let packed = Packed::new(loaded.travelling(&args.file)?).await?;
    let reply = submit::submit(clients, loaded.file, &packed).await?;
    let id = submit::id(&reply).to_owned();
    say(context, &format!("running {id}"))?;
    Ok(id)
}

/// A reader of the output who has gone is no reason to end a night's work.
fn say(context: &Context, text: &str) -> Result<(), Error> {
    match out::print_unless(context.quiet, text) {
        Err(Error::Pipe) => Ok(()),
        said => said,
    }
}

/// `run --coordinator URL`: submitted there, followed from here.
async fn elsewhere(
    args: &Args,
    loaded: Loaded,
    url: &str,
    context: &Context,
) -> Result<Exit, Error> {
    if args.hosts.is_given() {
        return Err(Error::BadInput(format!(
            "--fleet and --config start hosts in this process, and --coordinator {url} has its own; leave one out"
        )));
    }
    let clients = Clients::connect(url, &context.access).await?;
    let sweep = begin(&clients, args, loaded, context).await?;
    watch::run(watch::Args { sweep }, context).await
}

/// The coordinator of this process cannot move.
struct SameProcess(String);

impl Reconnect for SameProcess {
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn url(&self) -> Option<String> {
        Some(self.0.clone())
    }
}
