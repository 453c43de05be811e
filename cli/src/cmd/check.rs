//! `sweep check FILE`: is the sweep file right, and what does it expand to? Needs no coordinator and no host, and
//! changes nothing.

use std::path::PathBuf;

use serde::Serialize;

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::sweep_file::{self, Loaded};
use crate::{out, render};

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
    /// That travel with the sweep, besides the kit.
    pub files: Vec<TravellingFile>,
    /// Values of `cases` and `guards` without a file of that name beside the sweep file: they reach the program as
    /// they are.
    pub not_files: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct TravellingFile {
    pub name: String,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct SkippedCell {
    pub params: jobs::Params,
    pub reason: String,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let loaded = sweep_file::load(&args.file)?;
    out::document(context, &checked(&loaded), render::check::text)?;
    Ok(Exit::DONE)
}

fn checked(loaded: &Loaded) -> Checked {
    let plan = &loaded.plan;
    let files = loaded.sources.iter().map(|source| TravellingFile {
        name: source.name.clone(),
        bytes: source.size,
    });
    let skipped = plan.skipped.iter().map(|(params, reason)| SkippedCell {
        params: params.clone(),
        reason: reason.clone(),
    });
    Checked {
        file: loaded.file.name.clone(),
        name: plan.spec.name.clone(),
        about: plan.spec.about.clone(),
        trials: plan.trials.len(),
        jobs: plan.jobs(),
        kinds: plan.kinds().map(|kind| kind.to_string()).collect(),
        skipped: skipped.collect(),
        files: files.collect(),
        not_files: loaded.words.clone(),
    }
}
