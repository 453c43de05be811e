//! `sweep completions SHELL`: the shell's completion script, on stdout. Installs nothing.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::{Error, Exit};
use crate::harmless::Harmless;
use crate::out;

/// Print the completion script of a shell
///
/// For example: sweep completions bash > ~/.local/share/bash-completion/completions/sweep
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    pub shell: Shell,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    // The generator writes in many small pieces and panics when one fails; the pipe may be closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sweep", &mut script);
    out::bytes(&mut Harmless::default(), &script)?;
    Ok(Exit::DONE)
}
