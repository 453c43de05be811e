//! Hosts that are registered and run nothing, with a coordinator of their own in a temporary folder: `sweep plan`
//! asks what a fleet would do without touching a store, an agent or an attempt.

use std::path::PathBuf;

use agent::config::HostConfig;
use coordinator::Running;
use proto::v1::agent_message::Message as Said;
use proto::v1::agents_client::AgentsClient;
use proto::v1::coordinator_message::Message as Answer;
use proto::v1::{AgentMessage, CoordinatorMessage, Hello};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use uuid::Uuid;

use crate::access::Access;
use crate::clients::Clients;
use crate::embedded;
use crate::error::Error;

/// A coordinator that knows the hosts, until [`Pretended::close`].
pub struct Pretended {
    pub clients: Clients,
    running: Running,
    sessions: Vec<Session>,
    folder: Temporary,
}

/// A session lasts as long as both of its halves.
struct Session {
    _say: mpsc::Sender<AgentMessage>,
    _hear: Streaming<CoordinatorMessage>,
}

impl Pretended {
    pub async fn start(hosts: &[HostConfig]) -> Result<Self, Error> {
        let folder = Temporary(std::env::temp_dir().join(format!("sweep-plan-{}", Uuid::now_v7())));
        let running = embedded::start(&folder.0, embedded::ANY_PORT).await?;
        let clients = Clients::connect(running.url(), &Access::default()).await?;
        let mut sessions = Vec::new();
        for host in hosts {
            sessions.push(register(&clients, host).await?);
        }
        running.fleet_complete();
        Ok(Self {
            clients,
            running,
            sessions,
            folder,
        })
    }

    pub async fn close(self) -> Result<(), Error> {
        drop(self.sessions);
        drop(self.clients);
        let stopped = embedded::stop(self.running).await;
        drop(self.folder);
        stopped
    }
}

async fn register(clients: &Clients, host: &HostConfig) -> Result<Session, Error> {
    let (say, said) = mpsc::channel(4);
    let hello = Hello {
        protocol: proto::PROTOCOL,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        spool: Uuid::now_v7().to_string(),
        host: Some(host.info()),
        attempts: Vec::new(),
    };
    let hello = AgentMessage {
        message: Some(Said::Hello(hello)),
    };
    // The channel has room: nothing was said before.
    let _ = say.send(hello).await;
    let mut hear = AgentsClient::new(clients.wire())
        .session(ReceiverStream::new(said))
        .await?
        .into_inner();
    match hear.message().await?.and_then(|answer| answer.message) {
        Some(Answer::Welcome(_)) => Ok(Session {
            _say: say,
            _hear: hear,
        }),
        Some(Answer::Refuse(refuse)) => Err(Error::Refused(format!(
            "host {}: {}",
            host.name, refuse.reason
        ))),
        _ => Err(Error::Failed(format!(
            "failed to register host {} for the plan",
            host.name
        ))),
    }
}

/// A folder that goes with its owner.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("failed to remove {}: {error}", self.0.display());
        }
    }
}
