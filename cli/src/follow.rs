//! Follows a sweep until it has settled, through restarts of its coordinator: a lost connection is made again
//! quietly. Gives up only when nothing is heard for the whole patience. Draws nothing itself.

use std::time::Duration;

use proto::v1::WatchRequest;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::clients::Clients;
use crate::error::Error;
use crate::render::progress::Progress;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Where to look for the coordinator after its connection was lost, and for how long.
pub trait Reconnect {
    fn patience(&self) -> Duration;
    /// Where it may listen now; `None`: not known at the moment.
    fn url(&self) -> Option<String>;
}

/// Until the sweep has settled; the connection that said so.
pub async fn follow(
    mut clients: Clients,
    sweep: &str,
    reconnect: &impl Reconnect,
    progress: &mut Progress,
) -> Result<Clients, Error> {
    let mut heard = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let before = heard;
        match watch_once(&clients, sweep, progress, &mut heard).await {
            Ok(true) => return Ok(clients),
            Err(Failure::Answer(status)) if !is_lost(&status) => return Err((*status).into()),
            Err(Failure::Output(error)) => return Err(error),
            // The stream ended before the sweep: its coordinator is going away.
            Ok(false) | Err(Failure::Answer(_)) => {}
        }
        if heard > before {
            pause = FIRST_PAUSE;
        }
        progress.lost_connection();
        clients = again(clients, reconnect, heard, &mut pause).await?;
    }
}

/// A new connection, as soon as one can be made.
async fn again(
    old: Clients,
    reconnect: &impl Reconnect,
    heard: Instant,
    pause: &mut Duration,
) -> Result<Clients, Error> {
    loop {
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        let url = reconnect.url();
        let why = match &url {
            Some(url) => match old.again(url).await {
                Ok(clients) => return Ok(clients),
                Err(error) => error.to_string(),
            },
            None => "no coordinator runs on the data folder".to_owned(),
        };
        tracing::debug!("not connected yet: {why}");
        if heard.elapsed() > reconnect.patience() {
            let seconds = reconnect.patience().as_secs();
            return Err(Error::Unreachable {
                url: url.unwrap_or(old.url),
                why: format!(
                    "nothing heard for {seconds} s ({why}); the sweep is not lost: watch it again later"
                ),
            });
        }
    }
}

enum Failure {
    Answer(Box<Status>),
    Output(Error),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Answer(Box::new(status))
    }
}

/// True once the sweep has settled; false when the stream ended before.
async fn watch_once(
    clients: &Clients,
    sweep: &str,
    progress: &mut Progress,
    heard: &mut Instant,
) -> Result<bool, Failure> {
    let request = WatchRequest {
        sweep: sweep.to_owned(),
    };
    let mut replies = clients.sweeps().watch(request).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        *heard = Instant::now();
        progress.on_reply(&reply).map_err(Failure::Output)?;
        if reply.settled {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The connection's own failures, as opposed to an answer.
pub fn is_lost(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Aborted | Code::DeadlineExceeded => true,
        // What tonic makes of a connection that breaks in the middle of a reply.
        Code::Unknown | Code::Internal => {
            std::error::Error::source(status).is_some()
                || status.message().contains("h2 protocol error")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_connection_is_tried_again() {
        assert!(is_lost(&Status::unavailable("gone")));
        assert!(is_lost(&Status::unknown("h2 protocol error: broken pipe")));
        assert!(!is_lost(&Status::not_found("no such sweep")));
        assert!(!is_lost(&Status::internal("a bug")));
    }
}
