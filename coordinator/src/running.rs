//! A coordinator from its start to its end: folder locked, store opened, engine started, address bound and announced.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::v1::agents_server::AgentsServer;
use proto::v1::files_server::FilesServer;
use proto::v1::hosts_server::HostsServer;
use proto::v1::sweeps_server::SweepsServer;
use proto::v1::trust_server::TrustServer;
use proto::v1::vram_server::VramServer;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::api::Api;
use crate::clock;
use crate::engine::{self, Command, EngineHandle, Timing};
use crate::live::Live;
use crate::store::{self, AttemptFiles, Files, SledStore, Store, StoreError};
use crate::trust::{Gate, Trust, TrustError};

/// Sweep files have at most 1 MiB, with attachments.
const MESSAGE_MAX: usize = 16 << 20;
/// A certificate request has some hundred bytes.
const TRUST_MAX: usize = 64 << 10;
const HEADERS_MAX: u32 = 32 << 10;
/// Open streams are given this long to end by themselves.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    pub data: PathBuf,
    pub listen: SocketAddr,
    pub heartbeat: Duration,
    /// No word from a host for so long: its attempts are given up and requeued.
    pub grace: Duration,
    /// After a start, or after a host is new: nothing is ruled infeasible before.
    pub fleet_settles: Duration,
    /// A job waits so long for a rehearsal of its recipe.
    pub rehearsal_wait: Duration,
}

impl Options {
    #[must_use]
    pub fn new(data: &Path) -> Self {
        let timing = Timing::default();
        Self {
            data: data.to_path_buf(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            heartbeat: timing.heartbeat,
            grace: timing.grace,
            fleet_settles: timing.fleet_settles,
            rehearsal_wait: timing.rehearsal_wait,
        }
    }
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(
        "listen on {0}: without TLS only loopback addresses (127.0.0.1, ::1) are allowed, because whoever reaches a \
         coordinator can run programs on its hosts; make its certificates and tokens first, with: sweep coordinator \
         init --name HOSTNAME (and the same --data)"
    )]
    NotLoopback(SocketAddr),
    #[error("listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("serve: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// A coordinator that answers.
pub struct Running {
    address: SocketAddr,
    url: String,
    data: PathBuf,
    engine: EngineHandle,
    /// Absent once its end has been told.
    ended: Option<oneshot::Receiver<Option<StoreError>>>,
    close: CancellationToken,
    server: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
}

/// Starts a coordinator on a data folder, which is made if it is not there.
pub async fn start(options: Options) -> Result<Running, StartError> {
    if !options.listen.ip().is_loopback() && !Trust::is_there(&options.data) {
        return Err(StartError::NotLoopback(options.listen));
    }
    // Before anything is made: an address in use leaves nothing behind.
    let listening = |source| StartError::Listen {
        address: options.listen,
        source,
    };
    let listener = TcpListener::bind(options.listen).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    let store = SledStore::open(&options.data, clock::now_ms())?;
    // After the store, whose lock is the whole folder's.
    let trust = Trust::open(&options.data, clock::now_ms())?.map(Arc::new);
    let staged = Files::open(&options.data)?;
    let reader = store.reader();
    let live = Arc::new(Live::default());
    let timing = Timing {
        heartbeat: options.heartbeat,
        grace: options.grace,
        fleet_settles: options.fleet_settles,
        rehearsal_wait: options.rehearsal_wait,
    };
    let started = engine::spawn(options.data.clone(), Box::new(store), live.clone(), timing)?;
    let api = Api {
        engine: started.handle.clone(),
        reader,
        live,
        files: Arc::new(Mutex::new(AttemptFiles::new(&options.data))),
        staged,
        data: options.data.clone(),
        trust: trust.clone(),
    };
    let url = url(address, trust.is_some());
    let close = CancellationToken::new();
    let server = tokio::spawn(serve(api, listener, close.clone()));
    store::announce(&options.data, &url)?;
    Ok(Running {
        address,
        url,
        data: options.data,
        engine: started.handle,
        ended: Some(started.ended),
        close,
        server,
    })
}

/// How this machine reaches it: one that listens on all addresses is reached on loopback.
fn url(address: SocketAddr, tls: bool) -> String {
    let mut near = address;
    if near.ip().is_unspecified() {
        near.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{}://{near}", if tls { "https" } else { "http" })
}

async fn serve(
    api: Api,
    listener: TcpListener,
    close: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    // Small messages go out at once: an order must not wait for the acknowledgement before it.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .http2_max_header_list_size(HEADERS_MAX);
    if let Some(trust) = &api.trust {
        server = server.tls_config(trust.tls())?;
    }
    let gate = Gate {
        trust: api.trust.clone(),
    };
    server
        .layer(gate)
        .add_service(SweepsServer::new(api.clone()).max_decoding_message_size(MESSAGE_MAX))
        .add_service(HostsServer::new(api.clone()))
        .add_service(FilesServer::new(api.clone()))
        .add_service(TrustServer::new(api.clone()).max_decoding_message_size(TRUST_MAX))
        .add_service(VramServer::new(api.clone()).max_decoding_message_size(MESSAGE_MAX))
        .add_service(AgentsServer::new(api).max_decoding_message_size(MESSAGE_MAX))
        .serve_with_incoming_shutdown(incoming, close.cancelled_owned())
        .await
}

/// Whether the one writer of state still works through what it is asked.
#[derive(Clone)]
pub struct Pulse(EngineHandle);

impl Pulse {
    /// Comes back once it has. Of an engine that has ended it never does.
    pub async fn beat(&self) {
        if self.0.read(|_| Ok(())).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Running {
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse(self.engine.clone())
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How this machine reaches it; `https` where `coordinator init` was run.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Nothing more is placed: what runs is about to be stopped, and what that frees is not to be filled again.
    pub fn hold(&self) {
        self.engine.tell(Command::Hold);
    }

    /// Tells that no more hosts will register: what is too large for all of them is ruled infeasible at once.
    pub fn fleet_complete(&self) {
        self.engine.tell(Command::FleetComplete);
    }

    /// Resolves when the coordinator could not go on by itself.
    pub async fn failed(&mut self) -> StartError {
        if let Some(ended) = &mut self.ended {
            let end = ended.await;
            self.ended = None;
            if let Ok(Some(error)) = end {
                return error.into();
            }
        }
        // An engine that was told to stop has not failed: whoever told it is waiting elsewhere.
        std::future::pending().await
    }

    /// Ends it: what was acknowledged is on the disk already.
    pub async fn stop(self) -> Result<(), StartError> {
        self.close.cancel();
        self.engine.tell(Command::Stop);
        let mut server = self.server;
        match tokio::time::timeout(GOODBYE, &mut server).await {
            Ok(Ok(served)) => served?,
            Ok(Err(_)) => {}
            // Streams that are still open (agents, watchers) would keep it for ever.
            Err(_) => server.abort(),
        }
        let failed = match self.ended {
            Some(ended) => ended.await.ok().flatten(),
            None => None,
        };
        store::retract(&self.data)?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}
