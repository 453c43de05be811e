//! `sweep agent devices`: the GPUs that this machine's drivers tell of, and who holds their memory. Only looks.

use std::path::PathBuf;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Show the GPUs that this machine's drivers tell of, and who holds their memory
///
/// Needs no coordinator. With --json it is a recording that `recorded_devices` of a host file can name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A recording to show in place of this machine
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let look = agent::devices::watch(args.recorded.as_deref()).look();
    out::document(context, &look, render::devices::text)?;
    Ok(Exit::DONE)
}
