//! `sweep agent ...`: the agent of this host, what it has, and whether it can be one.

pub mod devices;
pub mod doctor;
pub mod install;
pub mod run;

use crate::context::Context;
use crate::error::{Error, Exit};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    Run(run::Args),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Install(install::Args),
    Uninstall(install::UninstallArgs),
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    match verb {
        Verb::Run(args) => run::run(args, context).await,
        Verb::Devices(args) => devices::run(&args, context),
        Verb::Doctor(args) => doctor::run(args, context).await,
        Verb::Install(args) => install::run(&args, context),
        Verb::Uninstall(args) => install::uninstall(&args, context),
    }
}

/// A token would go out in plain text.
fn needs_tls(coordinator: &str) -> Error {
    Error::BadInput(format!(
        "a join token is for a coordinator with TLS: write https:// instead of {coordinator}"
    ))
}
