//! `sweep`: every role and every command in one binary. This file is the table of contents: what is started first,
//! what a verb runs, how an error becomes an exit code. It decides nothing about sweeps.

mod access;
mod args;
mod clients;
mod cmd;
mod context;
mod embedded;
mod error;
mod follow;
mod harmless;
mod install;
mod kit;
mod local;
mod logging;
mod out;
mod pretend;
mod render;
mod service;
mod signals;
mod staging;
mod sweep_file;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::error::{Error, Exit};

fn main() -> ExitCode {
    // One of each starts for every attempt, hundreds in a second: no argument tree, no runtime, no logging.
    let mut words = std::env::args_os().skip(1);
    match (
        words.next().as_deref().and_then(OsStr::to_str),
        words.next(),
    ) {
        (Some("shepherd"), Some(folder)) => return agent::shepherd(Path::new(&folder)),
        (Some("simulate"), _) => return agent::simulate::main(),
        _ => {}
    }

    // Before anything speaks TLS. Somebody else's would be there only if it stood above this line.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    cli.global.color.write_global();
    logging::start(&cli);
    let (json, under) = (cli.global.json, cli.command.under());
    match service::carry(under, move || work(cli)) {
        Ok(exit) => exit.into(),
        Err(error) => failed(&error, json).into(),
    }
}

fn work(cli: Cli) -> Exit {
    let (json, under) = (cli.global.json, cli.command.under());
    let context = Context::new(cli.global);
    match context.and_then(|context| on_runtime(cli.command, &context)) {
        Ok(exit) => exit,
        Err(error) => {
            if under.is_some() {
                tracing::error!("{error}");
            }
            failed(&error, json)
        }
    }
}

fn failed(error: &Error, json: bool) -> Exit {
    error::print(error, json);
    error.exit()
}

fn on_runtime(command: Command, context: &Context) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("start", "the async runtime", source))?;
    let result = runtime.block_on(dispatch(command, context));
    // A blocking read that nobody waits for any more must not hold the exit.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    result
}

async fn dispatch(command: Command, context: &Context) -> Result<Exit, Error> {
    match command {
        Command::Run(args) => cmd::run::run(args, context).await,
        Command::Check(args) => cmd::check::run(&args, context),
        Command::Plan(args) => cmd::plan::run(args, context).await,
        Command::Submit(args) => cmd::submit::run(args, context).await,
        Command::List(args) => cmd::list::run(args, context).await,
        Command::Show(args) => cmd::show::run(args, context).await,
        Command::Watch(args) => cmd::watch::run(args, context).await,
        Command::Logs(args) => cmd::logs::run(args, context).await,
        Command::Cancel(args) => cmd::cancel::run(args, context).await,
        Command::Retry(args) => cmd::retry::run(args, context).await,
        Command::Why(args) => cmd::why::run(args, context).await,
        Command::History(args) => cmd::history::run(args, context).await,
        Command::Results(args) => cmd::results::run(args, context).await,
        Command::Hosts(args) => cmd::hosts::run(args, context).await,
        Command::Host(verb) => cmd::host::run(verb, context).await,
        Command::Agent(verb) => cmd::agent::run(verb, context).await,
        Command::Coordinator(verb) => cmd::coordinator::run(verb, context).await,
        Command::Token(verb) => cmd::token::run(verb, context).await,
        Command::Vram(verb) => cmd::vram::run(verb, context).await,
        Command::Completions(args) => cmd::completions::run(&args),
    }
}
