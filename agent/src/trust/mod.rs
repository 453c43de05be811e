//! How this machine knows its coordinator, and proves to it who it is: the CA by a pin in the token, this host by a
//! certificate whose key never leaves its folder. Used by the agent; the command line uses what is about the CA.
//!
//! Refuses to send a token to anybody before that one has shown a certificate of the pinned CA, and to read a token from
//! a file that others of this machine may read.

mod identity;
mod pin;
mod secret;

use std::path::PathBuf;

use proto::token::Token;
use thiserror::Error;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

pub use identity::{has_joined, identity};
pub use pin::{authority, check};
pub use secret::read_token;

use crate::durable::DiskError;

/// Variables that let somebody in. No program of a job gets them, whatever a host's or a sweep's file says.
pub const SECRETS: [&str; 4] = [
    "SWEEP_TOKEN",
    "SWEEP_TOKEN_FILE",
    "SWEEP_JOIN_TOKEN",
    "SWEEP_JOIN_TOKEN_FILE",
];

/// How long a coordinator may take to answer a handshake.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

#[derive(Debug, Error)]
pub enum TrustError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("read {}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("reach the coordinator at {address}: {why}")]
    Unreachable { address: String, why: String },
    #[error(
        "trust the coordinator at {address}: {why}; compare the CA's fingerprint with what `sweep coordinator init` said, \
         and if the coordinator was set up anew, get a new token"
    )]
    Untrusted { address: String, why: String },
    #[error(
        "join the coordinator at {0}: this host has no certificate yet; start the agent once with --token, or --token-file \
         (on the coordinator's machine: sweep token create --join)"
    )]
    NoToken(String),
    #[error("join: {0}")]
    Refused(String),
    #[error("make a key: {0}")]
    Key(String),
    #[error("understand the address `{0}`; write it like https://keeper.example:7480")]
    Address(String),
}

/// What an agent is given to join with.
#[derive(Debug, Default)]
pub struct Admission {
    pub token: Option<Token>,
    /// The CA's certificate as PEM, where it is not to be taken by the token's pin.
    pub authority: Option<String>,
}

/// What a connection over TLS needs.
#[derive(Clone)]
pub struct Credentials {
    /// The CA's certificate, PEM.
    pub authority: String,
    /// Certificate and key of this host, PEM.
    pub own: Option<(String, String)>,
}

impl Credentials {
    #[must_use]
    pub fn tls(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .timeout(PATIENCE);
        match &self.own {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

/// Is this spoken over TLS?
#[must_use]
pub fn is_tls(address: &str) -> bool {
    address.starts_with("https://")
}
