//! `sweep agent install` and `uninstall`: the agent of this host as a service that starts with the machine. Installing
//! again is an upgrade in place: running attempts go on.

use std::path::PathBuf;

use agent::config::hostname;
use secrecy::ExposeSecret as _;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::install::windows::Mode;
use crate::install::{Common, units, windows};

/// Install the agent of this host as a service and start it; again to upgrade it, attempts go on
///
/// As root: copies this program and its kit to /usr, makes a user, a host file (/etc/sweep/agent.toml, if there is none)
/// and the systemd unit. On Windows as administrator: to Program Files and ProgramData, and a service or a task.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Join token of a coordinator with TLS; other users of this machine see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// File with the join token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What starts the agent; logon-task is for Windows, where services do not reach the GPU
    #[arg(long, value_name = "MODE", default_value = "service")]
    pub mode: Mode,
    #[command(flatten)]
    pub common: Common,
}

/// End the agent's service and take its unit away; data, host file and running attempts stay
#[derive(Debug, clap::Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub common: Common,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    args.common.check()?;
    let Some(coordinator) = &context.coordinator else {
        return Err(Error::BadInput(
            "which coordinator? Name it with --coordinator https://KEEPER:7480".into(),
        ));
    };
    // They go into a line of the unit.
    if coordinator
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || "\"'\\$;".contains(c))
    {
        return Err(Error::BadInput(format!(
            "`{}` is no address of a coordinator",
            coordinator.escape_debug()
        )));
    }
    let token = match (&args.token, &args.token_file) {
        (Some(token), _) => Some(token.trim().to_owned()),
        (None, Some(file)) => {
            let read = agent::trust::read_token(file)
                .map_err(|error| Error::BadInput(format!("failed to {}", Error::chain(&error))))?;
            Some(read.text().expose_secret().to_owned())
        }
        (None, None) => None,
    };
    if token.is_some() && !agent::trust::is_tls(coordinator) {
        return Err(super::needs_tls(coordinator));
    }
    if let Some(token) = &token {
        proto::token::Token::parse(token)
            .map_err(|error| Error::BadInput(format!("failed to use the join token: {error}")))?;
    }
    if cfg!(windows) {
        let machine = args.common.windows_machine(args.mode)?;
        let steps = windows::agent(&windows::Agent {
            machine: &machine,
            coordinator,
            host: &hostname(),
            token: token.as_deref(),
            mode: args.mode,
        });
        return args.common.carry_out(&steps, context);
    }
    if args.mode == Mode::LogonTask {
        return Err(Error::BadInput(
            "--mode logon-task is for Windows".to_owned(),
        ));
    }
    let machine = args.common.machine()?;
    let steps = units::agent(&units::Agent {
        machine: &machine,
        coordinator,
        host: &hostname(),
        token: token.as_deref(),
    });
    args.common.carry_out(&steps, context)
}

pub fn uninstall(args: &UninstallArgs, context: &Context) -> Result<Exit, Error> {
    args.common.check()?;
    let steps = match cfg!(windows) {
        true => windows::removal(),
        false => units::removal("sweep-agent"),
    };
    args.common.carry_out(&steps, context)
}
