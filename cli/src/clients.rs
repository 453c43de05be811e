//! How a command reaches a coordinator: the one that was named, the one that runs on the data folder, or one in this
//! process for the length of the command. Every answer of every verb comes through here; nothing else is read.

use std::time::Duration;

use coordinator::Running;
use proto::v1::files_client::FilesClient;
use proto::v1::hosts_client::HostsClient;
use proto::v1::sweeps_client::SweepsClient;
use proto::v1::trust_client::TrustClient;
use proto::v1::vram_client::VramClient;
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::access::{Access, Bearer};
use crate::context::Context;
use crate::embedded;
use crate::error::Error;

/// A sweep of 10,000 trials with its verdicts has tens of megabytes.
const LARGEST_REPLY: usize = 256 << 20;
const CONNECT: Duration = Duration::from_secs(5);
/// For the folder's coordinator to say where it listens, while it is still reading its store.
const STARTING: Duration = Duration::from_secs(10);

/// One connection.
#[derive(Clone)]
pub struct Clients {
    wire: Wire,
    pub url: String,
    access: Access,
}

/// A connection that adds the token to each request.
pub type Wire = InterceptedService<Channel, Bearer>;

impl Clients {
    pub async fn connect(url: &str, access: &Access) -> Result<Self, Error> {
        let wrong = |error: tonic::transport::Error| {
            Error::BadInput(format!("`{url}` is not a coordinator's address: {error}"))
        };
        let granted = access.grant(url).await?;
        let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(wrong)?;
        if let Some(credentials) = &granted.credentials {
            endpoint = endpoint.tls_config(credentials.tls()).map_err(|error| {
                Error::BadInput(format!(
                    "failed to use the CA's certificate: {}",
                    Error::chain(&error)
                ))
            })?;
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            // Long silences are normal on a watched sweep; a dead connection must not be one.
            .http2_keep_alive_interval(Duration::from_secs(15))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true);
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| Error::Unreachable {
                url: url.to_owned(),
                why: Error::chain(&error),
            })?;
        Ok(Self {
            wire: InterceptedService::new(channel, granted.bearer),
            url: url.to_owned(),
            access: access.clone(),
        })
    }

    /// The same coordinator, maybe at another address by now.
    pub async fn again(&self, url: &str) -> Result<Self, Error> {
        Self::connect(url, &self.access).await
    }

    pub fn sweeps(&self) -> SweepsClient<Wire> {
        SweepsClient::new(self.wire.clone())
            .max_decoding_message_size(LARGEST_REPLY)
            .max_encoding_message_size(LARGEST_REPLY)
    }

    pub fn hosts(&self) -> HostsClient<Wire> {
        HostsClient::new(self.wire.clone()).max_decoding_message_size(LARGEST_REPLY)
    }

    pub fn files(&self) -> FilesClient<Wire> {
        FilesClient::new(self.wire.clone())
    }

    pub fn trust(&self) -> TrustClient<Wire> {
        TrustClient::new(self.wire.clone()).max_decoding_message_size(LARGEST_REPLY)
    }

    pub fn vram(&self) -> VramClient<Wire> {
        VramClient::new(self.wire.clone())
            .max_decoding_message_size(LARGEST_REPLY)
            .max_encoding_message_size(LARGEST_REPLY)
    }

    pub fn wire(&self) -> Wire {
        self.wire.clone()
    }
}

/// A coordinator that answers until [`Open::close`].
pub struct Open {
    pub clients: Clients,
    running: Option<Running>,
}

impl Open {
    /// It is in this process, so no agent works for it.
    pub fn is_embedded(&self) -> bool {
        self.running.is_some()
    }

    pub async fn close(self) -> Result<(), Error> {
        drop(self.clients);
        match self.running {
            Some(running) => embedded::stop(running).await,
            None => Ok(()),
        }
    }
}

/// The coordinator for this command. Whoever has the folder's lock is its coordinator, so trying to start one tells
/// whether one runs; an address that a crash left behind tells nothing.
pub async fn open(context: &Context) -> Result<Open, Error> {
    if let Some(url) = &context.coordinator {
        let clients = Clients::connect(url, &context.access).await?;
        return Ok(Open {
            clients,
            running: None,
        });
    }
    let deadline = tokio::time::Instant::now() + STARTING;
    loop {
        let in_use = match embedded::try_start(&context.data, embedded::ANY_PORT).await {
            Ok(running) => {
                let clients = Clients::connect(running.url(), &context.access).await?;
                return Ok(Open {
                    clients,
                    running: Some(running),
                });
            }
            Err(error) if embedded::is_in_use(&error) => error,
            Err(error) => return Err(embedded::start_error(&error)),
        };
        if let Some(url) = embedded::announced(&context.data) {
            match Clients::connect(&url, &context.access).await {
                Ok(clients) => {
                    return Ok(Open {
                        clients,
                        running: None,
                    });
                }
                Err(error @ (Error::Refused(_) | Error::BadInput(_))) => return Err(error),
                Err(_) => {}
            }
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(embedded::start_error(&in_use));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// As [`open`], but nothing for a data folder that holds nothing: reading must not create a store.
pub async fn open_existing(context: &Context) -> Result<Option<Open>, Error> {
    if context.coordinator.is_none() && !embedded::has_store(&context.data) {
        return Ok(None);
    }
    open(context).await.map(Some)
}

/// Opens, asks once, closes.
pub async fn ask<T>(
    context: &Context,
    call: impl AsyncFnOnce(&Clients) -> Result<tonic::Response<T>, Status>,
) -> Result<T, Error> {
    let open = open(context).await?;
    let answer = call(&open.clients).await;
    open.close().await?;
    Ok(answer?.into_inner())
}

/// As [`ask`]; `None` when the data folder holds nothing.
pub async fn ask_existing<T>(
    context: &Context,
    call: impl AsyncFnOnce(&Clients) -> Result<tonic::Response<T>, Status>,
) -> Result<Option<T>, Error> {
    let Some(open) = open_existing(context).await? else {
        return Ok(None);
    };
    let answer = call(&open.clients).await;
    open.close().await?;
    Ok(Some(answer?.into_inner()))
}

/// What a command about one thing says when the data folder holds nothing.
pub fn nothing_there(context: &Context, what: &str) -> Error {
    Error::BadInput(format!(
        "there is no {what}: the data folder {} holds no sweeps; give another with --data, or a coordinator with \
         --coordinator",
        context.data.display()
    ))
}
