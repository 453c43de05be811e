//! `sweep agent run`: the agent of one host, real (`--config`) or of a fleet file (`--fleet --host`). Its end ends no
//! attempt: they go on, and the next agent on the folder adopts them.

use std::path::PathBuf;

use agent::config::HostConfig;
use agent::trust::Admission;
use agent::{AgentOptions, Leave};
use proto::token::Token;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::service::{Told, Under};
use crate::signals::Asked;
use crate::{access, embedded, local, out};

/// Run the agent of this host until it is asked to end; attempts go on without it
///
/// Its folder is DATA/agents/NAME. Without --coordinator it uses the one that runs on the data folder.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Host file: name, interpreter, data sets, devices
    #[arg(long, value_name = "FILE", required_unless_present = "fleet", conflicts_with_all = ["fleet", "host"])]
    pub config: Option<PathBuf>,
    /// Fleet file with several hosts, of which --host is this one
    #[arg(long, value_name = "FILE", requires = "host")]
    pub fleet: Option<PathBuf>,
    /// Join token, for the first start with an https:// coordinator. Others of this machine see it in the list of
    /// processes; it is used up by then, but --token-file and SWEEP_JOIN_TOKEN keep it to yourself
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SWEEP_JOIN_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<String>,
    /// File with the join token, which only its owner may read
    #[arg(long, value_name = "FILE", env = "SWEEP_JOIN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// The CA's certificate (PEM) [default: as the token says]
    #[arg(long, value_name = "FILE", env = "SWEEP_CA")]
    pub ca: Option<PathBuf>,
    /// Name of the host in the fleet file
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub host: Option<String>,
    /// Who starts it: what `agent install` writes down for Windows
    #[arg(long, hide = true)]
    pub under: Option<Under>,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
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
    if (args.token.is_some() || args.token_file.is_some()) && !agent::trust::is_tls(&coordinator) {
        return Err(super::needs_tls(&coordinator));
    }
    let name = config.name.clone();
    let joined = agent::trust::has_joined(&context.agent_folder(&name));
    let shutdown = CancellationToken::new();
    let (tell, ready) = oneshot::channel();
    let options = AgentOptions {
        folder: context.agent_folder(&name),
        coordinator: coordinator.clone(),
        admission: admission(&args, joined)?,
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
    // At once: the coordinator may be away for long, and what runs here is looked after all the same.
    let told = Told::ready(|| async {});
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
    drop(told);
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

/// `joined`: the host has its certificate, and what is left of a token's file need not be there.
fn admission(args: &Args, joined: bool) -> Result<Admission, Error> {
    let given = |text: &String| {
        let wrong = |error| Error::BadInput(format!("failed to use the join token: {error}"));
        Token::parse(text).map_err(wrong)
    };
    // An empty variable is an unset one.
    let token = args
        .token
        .as_ref()
        .filter(|text| !text.is_empty())
        .map(given)
        .transpose()?;
    let token = match (token, &args.token_file) {
        (None, Some(file)) if joined && !file.exists() => None,
        (None, Some(file)) if !file.as_os_str().is_empty() => {
            Some(agent::trust::read_token(file).map_err(|error| access::trust_error(&error))?)
        }
        (token, _) => token,
    };
    let authority = args.ca.as_ref().filter(|file| !file.as_os_str().is_empty());
    let authority = authority
        .map(|file| access::authority_of(file))
        .transpose()?;
    Ok(Admission { token, authority })
}

fn config(args: &Args) -> Result<HostConfig, Error> {
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
