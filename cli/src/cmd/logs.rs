//! `sweep logs JOB [--follow]`: the log of the job's newest attempt, byte for byte. A connection that breaks is made
//! again and the log goes on where it was, nothing twice. Into a file or a pipe it goes byte for byte; a terminal gets
//! its colours, and what else would drive it is shown instead of carried out.

use std::time::Duration;

use proto::v1::LogsRequest;
use serde_json::json;

use crate::clients::{self, Clients, Open};
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::follow::is_lost;
use crate::harmless::Harmless;
use crate::{embedded, out};

/// Print the log of a job's newest attempt, or of one attempt
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Id of a job (SWEEP/3/train) or of an attempt (SWEEP/3/train/1)
    pub job: String,
    /// Go on as the log grows, until the job has settled
    #[arg(short, long)]
    pub follow: bool,
}

/// A broken connection is tried again this often before it counts as lost.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

pub async fn run(args: Args, context: &Context) -> Result<Exit, Error> {
    let missing = || clients::nothing_there(context, &format!("job `{}`", args.job));
    let open = clients::open_existing(context).await?.ok_or_else(missing)?;
    let read = read(&open, &args, context).await;
    open.close().await?;
    let kept = read?;
    if context.json {
        out::json(&json!({ "job": args.job, "attempts": kept.as_json() }))?;
    }
    Ok(Exit::DONE)
}

async fn read(open: &Open, args: &Args, context: &Context) -> Result<Place, Error> {
    let request = LogsRequest {
        job: args.job.clone(),
        // Without a coordinator that runs, no log grows.
        follow: args.follow && !open.is_embedded(),
    };
    let mut clients = open.clients.clone();
    let mut place = Place::default();
    let mut tries = 0;
    loop {
        let status =
            match stream(&clients, request.clone(), &mut place, context, &mut tries).await? {
                None => return Ok(place),
                Some(status) => status,
            };
        tries += 1;
        if !is_lost(&status) || open.is_embedded() || tries > TRIES {
            return Err(status.into());
        }
        tokio::time::sleep(PAUSE).await;
        let url = context
            .coordinator
            .clone()
            .or_else(|| embedded::announced(&context.data));
        if let Ok(again) = clients.again(url.as_deref().unwrap_or(&clients.url)).await {
            clients = again;
        }
        place.start_again();
    }
}

/// Until the log ends (`None`) or the connection does.
async fn stream(
    clients: &Clients,
    request: LogsRequest,
    place: &mut Place,
    context: &Context,
    tries: &mut u32,
) -> Result<Option<tonic::Status>, Error> {
    let mut replies = match clients.sweeps().logs(request).await {
        Ok(replies) => replies.into_inner(),
        Err(status) => return Ok(Some(status)),
    };
    loop {
        let reply = match replies.message().await {
            Ok(Some(reply)) => reply,
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        };
        *tries = 0;
        if place.on_attempt(&reply.attempt) {
            out::note(context, &format!("== {} ==", reply.attempt));
        }
        let fresh = place.fresh(&reply.data);
        if context.json {
            place.keep(fresh);
        } else {
            out::bytes(&mut place.terminal, fresh)?;
        }
    }
}

/// How far the log has been printed. After a reconnection it comes from its start again.
#[derive(Debug, Default)]
struct Place {
    attempt: String,
    /// Bytes of the attempt's log that were taken.
    taken: usize,
    /// Of those, how many this connection has sent.
    seen: usize,
    /// What a terminal may be in the middle of.
    terminal: Harmless,
    /// For JSON: the log of each attempt.
    kept: Vec<(String, Vec<u8>)>,
}

impl Place {
    fn start_again(&mut self) {
        self.seen = 0;
    }

    /// True at the first byte of an attempt that was not printed before.
    fn on_attempt(&mut self, attempt: &str) -> bool {
        if attempt.is_empty() || attempt == self.attempt {
            return false;
        }
        attempt.clone_into(&mut self.attempt);
        self.taken = 0;
        self.seen = 0;
        self.kept.push((attempt.to_owned(), Vec::new()));
        true
    }

    /// The part that was not taken before.
    fn fresh<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let start = self.seen;
        self.seen += data.len();
        let skip = self.taken.saturating_sub(start).min(data.len());
        self.taken = self.taken.max(self.seen);
        &data[skip..]
    }

    fn keep(&mut self, data: &[u8]) {
        if self.kept.is_empty() {
            self.kept.push((self.attempt.clone(), Vec::new()));
        }
        if let Some((_, log)) = self.kept.last_mut() {
            log.extend_from_slice(data);
        }
    }

    /// JSON holds text: bytes that are none are replaced.
    fn as_json(&self) -> Vec<serde_json::Value> {
        self.kept
            .iter()
            .map(
                |(attempt, log)| json!({ "attempt": attempt, "log": String::from_utf8_lossy(log) }),
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_reconnection_nothing_comes_twice() {
        let mut place = Place::default();
        assert!(place.on_attempt("a/1/train/1"));
        assert_eq!(place.fresh(b"hello "), b"hello ");
        place.start_again();
        assert!(!place.on_attempt("a/1/train/1"));
        assert_eq!(place.fresh(b"hel"), b"");
        assert_eq!(place.fresh(b"lo world"), b"world");
        assert_eq!(place.fresh(b"!"), b"!");
        assert!(place.on_attempt("a/1/train/2"));
        assert_eq!(place.fresh(b"again"), b"again");
    }

    #[test]
    fn bytes_that_are_no_text_still_make_json() {
        let mut place = Place::default();
        place.on_attempt("a/1/train/1");
        place.keep(b"ok \xff");
        assert_eq!(place.as_json()[0]["log"], "ok \u{fffd}");
    }
}
