//! `sweep agent run`: the agent of one host, real (`--config`) or of a fleet file (`--fleet --host`). Its end ends no
//! attempt: they go on, and the next agent on the folder adopts them.

use std::path::PathBuf;

use agent::config::HostConfig;
use agent::{AgentOptions, Leave};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::signals::Asked;
use crate::{embedded, local, out, render};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Run the agent of this host until it is asked to end; attempts go on without it
    ///
    /// Its folder is DATA/agents/NAME. Without --coordinator it uses the one that runs on the data folder.
    Run(RunArgs),
    /// Show the GPUs that this machine's drivers tell of, and who holds their memory
    ///
    /// Needs no coordinator. With --json it is a recording that `recorded_devices` of a host file can name.
    Devices(DevicesArgs),
}

#[derive(Debug, clap::Args)]
pub struct DevicesArgs {
    /// A recording to show in place of this machine
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Host file: name, interpreter, data sets, devices
    #[arg(long, value_name = "FILE", required_unless_present = "fleet", conflicts_with_all = ["fleet", "host"])]
    pub config: Option<PathBuf>,
    /// Fleet file with several hosts, of which --host is this one
    #[arg(long, value_name = "FILE", requires = "host")]
    pub fleet: Option<PathBuf>,
    /// Name of the host in the fleet file
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub host: Option<String>,
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    let args = match verb {
        Verb::Run(args) => args,
        Verb::Devices(args) => {
            let look = agent::devices::watch(args.recorded.as_deref()).look();
            out::document(context, &look, render::devices::text)?;
            return Ok(Exit::DONE);
        }
    };
    let config = config(&args)?;
    let coordinator = match context
        .coordinator
        .clone()
        .or_else(|| embedded::announced(&context.data))
    {
        Some(url) => url,
        None => {
            return Err(Error::BadInput(
                "which coordinator? Name it with --coordinator http://127.0.0.1:PORT".into(),
            ));
        }
    };
    let name = config.name.clone();
    let shutdown = CancellationToken::new();
    let (tell, ready) = oneshot::channel();
    let options = AgentOptions {
        folder: context.agent_folder(&name),
        coordinator: coordinator.clone(),
        program: local::program()?,
        kit: local::kit_folder(context, None)?,
        shutdown: shutdown.clone(),
        leave: Leave::Running.always(),
        ready: Some(tell),
        config,
    };
    let mut asked = Asked::listen()?;
    let mut agent = tokio::spawn(agent::run(options));
    let mut ready = Some(ready);
    loop {
        tokio::select! {
            ended = &mut agent => return ended_by_itself(&name, ended),
            () = asked.again() => break,
            taken = async { ready.as_mut().expect("checked by the condition").await }, if ready.is_some() => {
                ready = None;
                // Dropped without a word: the agent has ended, and says why itself.
                if taken.is_ok() {
                    announce(context, &name, &coordinator)?;
                }
            }
        }
    }
    shutdown.cancel();
    let quick = async {
        asked.again().await;
        Exit::DONE
    };
    tokio::select! {
        ended = agent => {
            if let Ok(Err(error)) = ended {
                return Err(local::agent_error(&name, &error));
            }
            Ok(Exit::DONE)
        }
        exit = quick => Ok(exit),
    }
}

type Ended = Result<Result<(), agent::AgentError>, tokio::task::JoinError>;

fn ended_by_itself(name: &str, ended: Ended) -> Result<Exit, Error> {
    match ended {
        Ok(Ok(())) => Err(Error::Failed(format!(
            "the agent of host {name} ended by itself"
        ))),
        Ok(Err(error)) => Err(local::agent_error(name, &error)),
        Err(error) => Err(Error::Failed(format!(
            "the agent of host {name} broke: {error}"
        ))),
    }
}

fn announce(context: &Context, name: &str, coordinator: &str) -> Result<(), Error> {
    if context.json {
        return out::json_line(&serde_json::json!({ "agent": name, "coordinator": coordinator }));
    }
    out::print(&format!("agent {name} ready, coordinator {coordinator}"))
}

fn config(args: &RunArgs) -> Result<HostConfig, Error> {
    if let Some(file) = &args.config {
        return local::read_host(file);
    }
    let (Some(fleet), Some(host)) = (&args.fleet, &args.host) else {
        return Err(Error::BadInput(
            "say --config FILE, or --fleet FILE --host NAME".into(),
        ));
    };
    local::read_fleet_host(fleet, host)
}
