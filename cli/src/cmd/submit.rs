//! `sweep submit FILE`: hands the sweep to a coordinator and prints its id once it is durable. Waits for nothing
//! more, and starts nothing itself.

use std::path::PathBuf;
use std::time::Duration;

use proto::v1::{SubmitReply, SubmitRequest, SweepFile};
use tokio::time::Instant;
use uuid::Uuid;

use crate::clients::{self, Clients};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::staging::Packed;
use crate::{out, sweep_file};

/// Submit a sweep and print its id as soon as it is durable
///
/// Without a coordinator it is stored in the data folder, and runs when a coordinator with hosts runs there.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sweep file (TOML)
    pub file: PathBuf,
}

/// A coordinator that is being restarted is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(250);

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let loaded = sweep_file::load(&args.file)?;
    let packed = Packed::new(loaded.travelling(&args.file)?).await?;
    let open = clients::open(context).await?;
    let stored_only = open.is_embedded();
    let submitted = submit(&open.clients, loaded.file, &packed).await;
    open.close().await?;
    let reply = submitted?;
    // On stdout the id alone: `id=$(sweep submit FILE)`.
    out::document(context, &reply, |reply| id(reply).to_owned())?;
    if let Some(head) = &reply.sweep {
        out::note(
            context,
            &format!(
                "{} {}, {} {}",
                head.trials,
                if head.trials == 1 { "trial" } else { "trials" },
                head.jobs,
                if head.jobs == 1 { "job" } else { "jobs" },
            ),
        );
    }
    if stored_only {
        let data = context.data.display();
        out::note(
            context,
            &format!(
                "stored in {data}; nothing will run until a coordinator runs on that folder \
                 (sweep coordinator run, or sweep run with the same file)"
            ),
        );
    }
    Ok(Exit::DONE)
}

/// Sends it until it is acknowledged or refused. The submission's number makes a second sending harmless.
pub async fn submit(
    clients: &Clients,
    file: SweepFile,
    packed: &Packed,
) -> Result<SubmitReply, Error> {
    let request = SubmitRequest {
        submission: Uuid::now_v7().to_string(),
        file: Some(file),
        files: packed.files.clone(),
    };
    let mut error = match once(clients, &request, packed).await {
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    let until = Instant::now() + PATIENCE;
    // The connection broke: it may or may not have been taken, so it is sent again once one can be made.
    while is_lost(&error) && Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
        let Ok(again) = clients.again(&clients.url).await else {
            continue;
        };
        match once(&again, &request, packed).await {
            Ok(reply) => return Ok(reply),
            Err(other) => error = other,
        }
    }
    Err(error)
}

/// The files first: a sweep whose files are not all there is refused.
async fn once(
    clients: &Clients,
    request: &SubmitRequest,
    packed: &Packed,
) -> Result<SubmitReply, Error> {
    packed.send(clients.files()).await?;
    Ok(clients.sweeps().submit(request.clone()).await?.into_inner())
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Status(status) if crate::follow::is_lost(status))
}

/// The sweep's id.
pub fn id(reply: &SubmitReply) -> &str {
    reply.sweep.as_ref().map_or("", |head| head.id.as_str())
}
