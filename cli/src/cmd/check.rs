//! `sweep check FILE`: is the sweep file right, and what does it expand to? Needs no coordinator and no host, and
//! changes nothing.

use std::path::PathBuf;

use jobs::Plan;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render, sweep_file};

/// Check a sweep file: every error with its line, nothing is submitted
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sweep file (TOML)
    pub file: PathBuf,
}

/// The JSON of `check --json`.
#[derive(Debug, Serialize)]
pub struct Checked {
    pub file: String,
    pub name: String,
    pub about: String,
    pub trials: usize,
    pub jobs: usize,
    /// Kinds of job that each trial has, in order.
    pub kinds: Vec<String>,
    /// Cells that a `[[when]]` dropped.
    pub skipped: Vec<SkippedCell>,
}

#[derive(Debug, Serialize)]
pub struct SkippedCell {
    pub params: jobs::Params,
    pub reason: String,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let loaded = sweep_file::load(&args.file)?;
    out::document(
        context,
        &checked(loaded.file.name, &loaded.plan),
        render::check::text,
    )?;
    Ok(Exit::DONE)
}

fn checked(file: String, plan: &Plan) -> Checked {
    let skipped = plan.skipped.iter().map(|(params, reason)| SkippedCell {
        params: params.clone(),
        reason: reason.clone(),
    });
    Checked {
        file,
        name: plan.spec.name.clone(),
        about: plan.spec.about.clone(),
        trials: plan.trials.len(),
        jobs: plan.jobs(),
        kinds: plan.kinds().map(|kind| kind.to_string()).collect(),
        skipped: skipped.collect(),
    }
}
