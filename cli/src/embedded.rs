//! A coordinator in this process, on the store in the data folder: for the length of one command, of a `sweep run`, or
//! as `coordinator run`. Only starts it, and says how its errors read; what it does is the coordinator's.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use coordinator::store::StoreError;
use coordinator::trust::TrustError;
use coordinator::{Options, Running, StartError};

use crate::error::Error;

/// Loopback, any free port.
pub const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A command such as `sweep list` has the store open for a moment: that is worth a short wait.
const PATIENCE: Duration = Duration::from_millis(1500);
const PAUSE: Duration = Duration::from_millis(100);

/// Starts on the folder, which nobody else may be using for longer than a moment.
pub async fn start(data: &Path, listen: SocketAddr) -> Result<Running, Error> {
    start_with(options(data, listen)).await
}

/// The same with times of the caller's choice.
pub async fn start_with(options: Options) -> Result<Running, Error> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match coordinator::start(options.clone()).await {
            Err(error) if is_in_use(&error) && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            started => return started.map_err(|error| start_error(&error)),
        }
    }
}

/// One try.
pub async fn try_start(data: &Path, listen: SocketAddr) -> Result<Running, StartError> {
    coordinator::start(options(data, listen)).await
}

fn options(data: &Path, listen: SocketAddr) -> Options {
    Options {
        listen,
        ..Options::new(data)
    }
}

pub async fn stop(running: Running) -> Result<(), Error> {
    running.stop().await.map_err(|error| start_error(&error))
}

/// Where the folder's coordinator says that it listens. After a crash nobody may be there.
pub fn announced(data: &Path) -> Option<String> {
    let address = coordinator::store::address(data).ok().flatten()?;
    Some(if address.contains("://") {
        address
    } else {
        format!("http://{address}")
    })
}

/// Was there ever a coordinator on this folder? If not, reading commands leave it as it is.
pub fn has_store(data: &Path) -> bool {
    ["store", "store.old", "coordinator.addr"]
        .iter()
        .any(|name| data.join(name).exists())
}

pub fn is_in_use(error: &StartError) -> bool {
    matches!(error, StartError::Store(StoreError::InUse { .. }))
}

/// A starting error with its exit code.
pub fn start_error(error: &StartError) -> Error {
    match error {
        StartError::Store(store) => store_error(store),
        StartError::Trust(error) => trust_error(error),
        StartError::NotLoopback(_) | StartError::Listen { .. } => {
            Error::Refused(format!("failed to {}", Error::chain(error)))
        }
        other => Error::Failed(format!("failed to {}", Error::chain(other))),
    }
}

/// An error about certificates and tokens with its exit code.
pub fn trust_error(error: &TrustError) -> Error {
    let text = format!("failed to {}", Error::chain(error));
    match error {
        TrustError::Disk(store) => store_error(store),
        TrustError::Exists(_) | TrustError::Denied(_) => Error::Refused(text),
        TrustError::Request => Error::BadInput(text),
        TrustError::Damaged { .. } | TrustError::Certificate(_) | TrustError::Random(_) => {
            Error::Failed(text)
        }
    }
}

/// A store's error with its exit code.
pub fn store_error(error: &StoreError) -> Error {
    let text = format!("failed to {}", Error::chain(error));
    match error {
        StoreError::InUse { .. } | StoreError::NotEmpty { .. } | StoreError::Newer { .. } => {
            Error::Refused(text)
        }
        StoreError::Missing { .. } | StoreError::BadPage { .. } => Error::BadInput(text),
        _ => Error::Failed(text),
    }
}
