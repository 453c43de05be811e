//! `sweep watch SWEEP`: what happens, until the sweep has settled; then its results and its exit code. Survives a
//! restart of the coordinator. Changes nothing, and leaves the sweep alone when it is left.

use std::path::PathBuf;
use std::time::Duration;

use super::{results, show};
use crate::clients::{self, Clients, Open};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::{Reconnect, follow};
use crate::render::progress::Progress;
use crate::{embedded, out, render};

/// Follow a sweep until it has settled, and return its exit code
///
/// A coordinator that restarts is waited for, for up to ten minutes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of the sweep, or its name for the newest of that name
    pub sweep: String,
}

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    // A name may come to mean a newer sweep: once it is known, the id is watched.
    let mut sweep = args.sweep;
    loop {
        let Some(open) = clients::open_existing(context).await? else {
            return Err(clients::nothing_there(context, &format!("sweep `{sweep}`")));
        };
        let step = step(&open, &mut sweep, context).await;
        open.close().await?;
        match step? {
            Step::Ended(exit) => return Ok(exit),
            // On a data folder: its coordinator has gone, so what it left is asked.
            Step::Gone => {}
        }
    }
}

enum Step {
    Ended(Exit),
    Gone,
}

async fn step(open: &Open, sweep: &mut String, context: &Context) -> Result<Step, Error> {
    let head = show::document(&open.clients, sweep)
        .await?
        .sweep
        .unwrap_or_default();
    *sweep = head.id;
    if open.is_embedded() {
        if head.settled_at.is_none() {
            return Err(not_running(context, sweep));
        }
        return Ok(Step::Ended(ending(&open.clients, context, sweep).await?));
    }
    let place = Place::of(context);
    let mut progress = Progress::new(context);
    let followed = follow(open.clients.clone(), sweep, &place, &mut progress).await;
    progress.finish();
    match (followed, place) {
        (Ok(clients), _) => Ok(Step::Ended(ending(&clients, context, sweep).await?)),
        (Err(Error::Unreachable { .. }), Place::Folder(_)) => Ok(Step::Gone),
        (Err(error), _) => Err(error),
    }
}

fn not_running(context: &Context, sweep: &str) -> Error {
    Error::Unreachable {
        url: context.data.display().to_string(),
        why: format!(
            "none runs on that folder, so {sweep} does not go on; start `sweep run` or `sweep coordinator run`"
        ),
    }
}

/// Prints how a settled sweep ended, and returns its exit code, also when nobody reads what is printed.
pub async fn ending(clients: &Clients, context: &Context, sweep: &str) -> Result<Exit, Error> {
    let (summary, printed) = if context.json {
        let document = show::document(clients, sweep).await?;
        let printed = out::json(&document);
        (document.summary, printed)
    } else {
        let document = results::document(clients, sweep).await?;
        let printed = out::print(&render::results::text(&document));
        (document.summary, printed)
    };
    match printed {
        Ok(()) | Err(Error::Pipe) => Ok(Exit::of_sweep(
            summary.map_or(1, |summary| summary.exit_code),
        )),
        Err(error) => Err(error),
    }
}

/// Where the coordinator is looked for after its connection was lost.
enum Place {
    Url(String),
    Folder(PathBuf),
}

impl Place {
    fn of(context: &Context) -> Self {
        match &context.coordinator {
            Some(url) => Self::Url(url.clone()),
            None => Self::Folder(context.data.clone()),
        }
    }
}

impl Reconnect for Place {
    fn patience(&self) -> Duration {
        match self {
            Self::Url(_) => Duration::from_secs(600),
            Self::Folder(_) => Duration::from_secs(20),
        }
    }

    fn url(&self) -> Option<String> {
        match self {
            Self::Url(url) => Some(url.clone()),
            Self::Folder(data) => embedded::announced(data),
        }
    }
}
