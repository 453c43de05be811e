//! The session with the coordinator: dials out, says what it holds, takes orders, reports; and again, for as long as
//! the agent lives. Attempts do not notice whether there is one.
//! Ends only when the coordinator speaks another protocol: waiting does not help there.

mod link;
mod states;
mod talk;

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
pub use link::{Link, Links, Outgoing};
use proto::v1::agents_client::AgentsClient;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tonic::transport::{Channel, Endpoint};

use crate::attempt::Attempts;
use crate::config::HostConfig;
use crate::devices::{Pulse, Seen};
use crate::recording::Offering;
use crate::rehearsal::Asking;
use crate::spool::Spool;
use crate::trust::Credentials;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After a refusal: a person has to do something first.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
const DIAL: Duration = Duration::from_secs(3);
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_LOST: Duration = Duration::from_secs(10);
/// Of a message from the coordinator: a start carries a configuration.
const LARGEST: usize = 64 << 20;

pub struct Session {
    pub coordinator: String,
    /// Over TLS only.
    pub credentials: Option<Credentials>,
    pub config: Arc<HostConfig>,
    pub attempts: Attempts,
    pub rehearsals: Asking,
    pub recordings: Offering,
    pub spool: Spool,
    /// Why the owner keeps jobs from this host now; empty: he does not.
    pub owner: watch::Receiver<String>,
    pub seen: watch::Receiver<Seen>,
    pub pulse: Pulse,
    pub links: watch::Sender<Option<Link>>,
    pub ready: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Error)]
pub enum SessionError {
    #[error(
        "understand the coordinator's address `{address}`: {source}; write it like http://127.0.0.1:7480"
    )]
    Address {
        address: String,
        source: tonic::transport::Error,
    },
    #[error("work with this coordinator: {0}")]
    Protocol(String),
}

/// How one session ended.
enum End {
    Lost(String),
    Refused(String),
    Protocol(String),
}

/// Keeps a session until the coordinator's protocol turns out to be another one.
pub async fn keep(mut session: Session) -> Result<(), SessionError> {
    let endpoint = endpoint(&session.coordinator, session.credentials.as_ref())?;
    let mut pauses = pauses();
    let mut told = false;
    loop {
        let mut welcome = false;
        let end = once(&mut session, &endpoint, &mut welcome).await;
        session.links.send_replace(None);
        if welcome {
            (pauses, told) = (self::pauses(), false);
        }
        let pause = match end {
            End::Protocol(what) => return Err(SessionError::Protocol(what)),
            End::Refused(reason) => {
                tracing::error!(reason, "the coordinator refuses this host");
                REFUSED_PAUSE
            }
            End::Lost(why) => {
                // Once per loss: an absent coordinator would fill the log.
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        why,
                        coordinator = session.coordinator,
                        "no session; trying again"
                    );
                }
                pauses.next().unwrap_or(LONGEST_PAUSE)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn once(session: &mut Session, endpoint: &Endpoint, welcome: &mut bool) -> End {
    match endpoint.connect().await {
        Ok(channel) => talk::talk(session, client(channel), welcome).await,
        Err(error) => End::Lost(with_causes(&error)),
    }
}

/// How the coordinator is dialled.
pub(crate) fn endpoint(
    address: &str,
    credentials: Option<&Credentials>,
) -> Result<Endpoint, SessionError> {
    let wrong = |source| SessionError::Address {
        address: address.to_owned(),
        source,
    };
    let mut endpoint = Endpoint::from_shared(address.to_owned()).map_err(wrong)?;
    if let Some(credentials) = credentials {
        endpoint = endpoint.tls_config(credentials.tls()).map_err(wrong)?;
    }
    Ok(endpoint
        .connect_timeout(DIAL)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_LOST)
        .keep_alive_while_idle(true))
}

fn client(channel: Channel) -> AgentsClient<Channel> {
    AgentsClient::new(channel).max_decoding_message_size(LARGEST)
}

fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE);
    builder.without_max_times().with_jitter().build()
}

/// An error with what caused it: a bare "transport error" helps nobody.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
