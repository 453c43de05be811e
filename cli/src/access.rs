//! With which token and which CA a coordinator is spoken to over TLS. The first that is there: `SWEEP_TOKEN`,
//! `SWEEP_TOKEN_FILE`, the owner's token of the data folder whose coordinator it is, `token` in the user's configuration
//! folder. The CA is in `SWEEP_CA`, or known by the fingerprint that the token carries.
//!
//! Refuses to send a token without TLS, and to read one from a file that others may read. Never prints one.

use std::path::{Path, PathBuf};

use agent::trust::{self, Credentials, TrustError};
use etcetera::BaseStrategy as _;
use proto::token::Token;
use secrecy::ExposeSecret as _;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::embedded;
use crate::error::Error;

/// Where things are looked for; nothing is read before a connection needs it.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The data folder, for commands that talk to its own coordinator.
    pub data: Option<PathBuf>,
}

/// What one connection uses.
#[derive(Default)]
pub struct Granted {
    pub credentials: Option<Credentials>,
    pub bearer: Bearer,
}

impl Access {
    pub async fn grant(&self, url: &str) -> Result<Granted, Error> {
        if !trust::is_tls(url) {
            return Ok(Granted::default());
        }
        let (access, url) = (self.clone(), url.to_owned());
        // A handshake and a few small files.
        let work = tokio::task::spawn_blocking(move || access.look(&url)).await;
        work.map_err(|error| Error::Failed(format!("failed to look for a token: {error}")))?
    }

    fn look(&self, url: &str) -> Result<Granted, Error> {
        let (token, own_authority) = self.token(url)?;
        let authority = match variable("SWEEP_CA") {
            Some(path) => Some(authority_of(Path::new(&path))?),
            None => own_authority,
        };
        let authority = match authority {
            Some(authority) => {
                let checked = trust::check(url, &authority, token.pin());
                checked.map_err(|error| trust_error(&error))?;
                authority
            }
            None => trust::authority(url, token.pin()).map_err(|error| trust_error(&error))?,
        };
        Ok(Granted {
            credentials: Some(Credentials {
                authority,
                own: None,
            }),
            bearer: Bearer::of(&token)?,
        })
    }

    /// The token, and the CA where it lies beside it.
    fn token(&self, url: &str) -> Result<(Token, Option<String>), Error> {
        let read = |path: &Path| trust::read_token(path).map_err(|error| trust_error(&error));
        if let Some(text) = variable("SWEEP_TOKEN") {
            let wrong = |error| Error::BadInput(format!("failed to use SWEEP_TOKEN: {error}"));
            return Ok((Token::parse(&text).map_err(wrong)?, None));
        }
        if let Some(path) = variable("SWEEP_TOKEN_FILE") {
            return Ok((read(Path::new(&path))?, None));
        }
        if let Some(data) = &self.data {
            let folder = data.join("trust");
            let owner = folder.join("owner.token");
            if embedded::announced(data).as_deref() == Some(url) && owner.exists() {
                return Ok((read(&owner)?, Some(authority_of(&folder.join("ca.pem"))?)));
            }
        }
        let kept = kept();
        match &kept {
            Some(path) if path.exists() => Ok((read(path)?, None)),
            _ => {
                let place = kept.map_or_else(String::new, |path| {
                    format!(", or put it into {} (chmod 600)", path.display())
                });
                Err(Error::Refused(format!(
                    "failed to use {url}: it needs a token; set SWEEP_TOKEN{place}. Whoever runs the coordinator makes one \
                     with: sweep token create NAME --role read|submit|admin"
                )))
            }
        }
    }
}

/// `$XDG_CONFIG_HOME/sweep/token` or `~/.config/sweep/token`; `%APPDATA%\sweep\token`.
fn kept() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.config_dir().join("sweep").join("token"))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

pub fn authority_of(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// A trust error with its exit code.
pub fn trust_error(error: &TrustError) -> Error {
    let text = format!("failed to {error}");
    match error {
        TrustError::Unreachable { address, why } => Error::Unreachable {
            url: address.clone(),
            why: why.clone(),
        },
        TrustError::Untrusted { .. } | TrustError::NoToken(_) | TrustError::Refused(_) => {
            Error::Refused(text)
        }
        TrustError::File { .. } | TrustError::Address(_) => Error::BadInput(text),
        TrustError::Disk(_) | TrustError::Key(_) => Error::Failed(text),
    }
}

/// Adds the token to each request.
#[derive(Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn of(token: &Token) -> Result<Self, Error> {
        let value = format!("Bearer {}", token.text().expose_secret());
        let mut value: MetadataValue<Ascii> = value
            .parse()
            .map_err(|_| Error::Failed("failed to send the token".into()))?;
        // Not in anybody's debug output, and not in tables of headers.
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}
