//! The hosts of `sweep run`: one agent for each host of the fleet file, of the host's file, or this machine's own
//! CPU, all in this process. Only starts and ends them; placement is the coordinator's, attempts are the agents'.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::config::HostConfig;
use agent::fleet::Fleet;
use agent::trust::Admission;
use agent::{AgentError, AgentOptions, Leave};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access;
use crate::context::{self, Context};
use crate::error::Error;
use crate::kit;

/// A host that takes longer to be taken in has something wrong.
const REGISTER: Duration = Duration::from_secs(30);

/// Which hosts a command works with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Fleet file: one agent in this process for each of its hosts
    #[arg(long, value_name = "FLEET", conflicts_with = "config")]
    pub fleet: Option<PathBuf>,
    /// Host file of this machine [default: this machine with its CPU]
    #[arg(long, value_name = "HOSTFILE")]
    pub config: Option<PathBuf>,
}

impl Choice {
    pub fn is_given(&self) -> bool {
        self.fleet.is_some() || self.config.is_some()
    }

    /// The configurations, read and checked.
    pub fn hosts(&self) -> Result<Vec<HostConfig>, Error> {
        let hosts = match (&self.fleet, &self.config) {
            (Some(fleet), _) => read_fleet(fleet)?,
            (None, Some(file)) => vec![read_host(file)?],
            (None, None) => vec![HostConfig::this_machine().map_err(|error| config_error(&error))?],
        };
        if hosts.iter().all(|host| host.devices.is_empty()) {
            return Err(Error::BadInput("no host of the file has a device".into()));
        }
        Ok(hosts)
    }

    /// The flags as they were given, for a hint to repeat the command.
    pub fn words(&self) -> String {
        match (&self.fleet, &self.config) {
            (Some(fleet), _) => format!(" --fleet {}", fleet.display()),
            (None, Some(file)) => format!(" --config {}", file.display()),
            (None, None) => String::new(),
        }
    }
}

fn fleet(file: &Path) -> Result<Fleet, Error> {
    Fleet::read(file).map_err(|error| config_error(&error))
}

/// One host of a fleet file.
pub fn read_fleet_host(file: &Path, name: &str) -> Result<HostConfig, Error> {
    fleet(file)?
        .host(name)
        .cloned()
        .map_err(|error| config_error(&error))
}

pub fn read_fleet(file: &Path) -> Result<Vec<HostConfig>, Error> {
    Ok(fleet(file)?.hosts)
}

pub fn read_host(file: &Path) -> Result<HostConfig, Error> {
    let host = HostConfig::read(file).map_err(|error| config_error(&error))?;
    if host.devices.is_empty() {
        let file = file.display();
        return Err(Error::BadInput(format!(
            "{file} names no device, so nothing could run there; add at least [[device]] with kind = \"cpu\""
        )));
    }
    Ok(host)
}

fn config_error(error: &dyn std::error::Error) -> Error {
    Error::BadInput(format!("failed to {}", Error::chain(error)))
}

/// Agents that run in this process.
pub struct Hosts {
    agents: JoinSet<(String, Result<(), AgentError>)>,
    shutdown: CancellationToken,
    leave: watch::Sender<Leave>,
    ready: Vec<(String, oneshot::Receiver<()>)>,
}

impl Hosts {
    pub fn start(
        context: &Context,
        hosts: Vec<HostConfig>,
        coordinator: &str,
        kit: &Path,
    ) -> Result<Self, Error> {
        let mut started = Self {
            agents: JoinSet::new(),
            shutdown: CancellationToken::new(),
            leave: watch::channel(Leave::Running).0,
            ready: Vec::new(),
        };
        for config in hosts {
            let (tell, ready) = oneshot::channel();
            let name = config.name.clone();
            let options = AgentOptions {
                folder: context::agent_folder(&context.data, &name),
                coordinator: coordinator.to_owned(),
                admission: Admission::default(),
                program: program()?,
                kit: kit.to_owned(),
                shutdown: started.shutdown.clone(),
                leave: started.leave.subscribe(),
                ready: Some(tell),
                config,
            };
            started.ready.push((name.clone(), ready));
            started
                .agents
                .spawn(async move { (name, agent::run(options).await) });
        }
        Ok(started)
    }

    /// Until the coordinator has taken every host in.
    pub async fn registered(&mut self) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + REGISTER;
        for (name, ready) in std::mem::take(&mut self.ready) {
            match tokio::time::timeout_at(deadline, ready).await {
                Ok(Ok(())) => {}
                // It ended without becoming ready, and knows why.
                Ok(Err(_)) => return Err(self.failed().await),
                Err(_) => {
                    let seconds = REGISTER.as_secs();
                    return Err(Error::Failed(format!(
                        "failed to register host {name} within {seconds} s"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Resolves when an agent ends that nobody asked to.
    pub async fn failed(&mut self) -> Error {
        match self.agents.join_next().await {
            Some(Ok((name, Err(error)))) => agent_error(&name, &error),
            Some(Ok((name, Ok(())))) => {
                Error::Failed(format!("the agent of host {name} ended by itself"))
            }
            Some(Err(error)) => Error::Failed(format!("an agent broke: {error}")),
            None => std::future::pending().await,
        }
    }

    /// Ends the agents; what their attempts do then is `leave`'s to say.
    pub async fn leave(mut self, leave: Leave) {
        self.leave.send_replace(leave);
        self.shutdown.cancel();
        while let Some(ended) = self.agents.join_next().await {
            if let Ok((name, Err(error))) = ended {
                tracing::warn!("host {name}: failed to {}", Error::chain(&error));
            }
        }
    }
}

/// An agent's error with its exit code.
pub fn agent_error(host: &str, error: &AgentError) -> Error {
    let text = format!("host {host}: failed to {}", Error::chain(error));
    match error {
        AgentError::Session(_) => Error::Refused(text),
        AgentError::Trust(error) => match access::trust_error(error) {
            Error::BadInput(_) => Error::BadInput(text),
            Error::Failed(_) => Error::Failed(text),
            _ => Error::Refused(text),
        },
        AgentError::Folder(_) | AgentError::Disk(_) | AgentError::Spool(_) => Error::Failed(text),
    }
}

/// This executable: what a shepherd is started from.
pub fn program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(|source| Error::io("find", "this executable", source))
}

/// The kit folder for agents; one that is not there fails only the attempt that needs it.
pub fn kit_folder(context: &Context, sweep_file: Option<&Path>) -> Result<PathBuf, Error> {
    Ok(kit::find(sweep_file)?.unwrap_or_else(|| context.data.join("kit")))
}
