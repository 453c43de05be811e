//! The process that owns one attempt: `sweep shepherd FOLDER`. It starts the program, keeps the time, measures
//! memory, ends everything that the program started, and leaves `ending.json`.
//!
//! It needs nobody: no agent, no coordinator, no network. It decides nothing about what the ending means. What it
//! cannot write to its folder it says on its standard output, which the agent that started it reads.

mod finish;
mod program;
mod samples;
mod tend;

pub(crate) use program::passed;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::attempt::AttemptFolder;
use crate::attempt::facts::Facts;
use crate::clock;
use crate::durable::DiskError;
use crate::os::Reins;

/// Runs the attempt of this folder to its end. Does nothing when it has ended, or has a shepherd.
#[must_use]
pub fn shepherd(folder: &Path) -> ExitCode {
    let folder = AttemptFolder::new(folder.to_owned());
    match own(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(facts) => {
            // The agent may be gone and its pipe broken: then nobody is left to tell.
            let words = serde_json::to_vec(&facts).unwrap_or_default();
            let _ = std::io::stdout().write_all(&words);
            ExitCode::FAILURE
        }
    }
}

/// The error is an ending that could not be written.
fn own(folder: &AttemptFolder) -> Result<(), Box<Facts>> {
    let _lock = match folder.lock() {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        Err(error) => return Err(refused(&error)),
    };
    if folder.read_ending().is_some() {
        return Ok(());
    }
    let facts = match Reins::take() {
        Ok(mut reins) => match folder.read_order() {
            Ok(order) => tend::tend(folder, &order, &mut reins),
            Err(error) => *refused(&error),
        },
        Err(error) => Facts::not_started(format!("its shepherd: {error}"), clock::unix_ms()),
    };
    match folder.write_ending(&facts) {
        Ok(()) => Ok(()),
        Err(error) => Err(with_trouble(facts, &error)),
    }
}

fn refused(error: &DiskError) -> Box<Facts> {
    Box::new(Facts::not_started(error.to_string(), clock::unix_ms()))
}

fn with_trouble(mut facts: Facts, error: &DiskError) -> Box<Facts> {
    facts.trouble.push(error.to_string());
    Box::new(facts)
}
