//! This host's certificate: read from the agent's folder, or got with a join token. The key is made here and stays here;
//! the coordinator sees a request that is signed with it.
//!
//! The key is on the disk before the token is shown, so a join whose answer is lost is asked again with the same key.
//! Refuses to join with a token of another CA than the one it was given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use proto::token::Token;
use proto::v1::JoinRequest;
use proto::v1::trust_client::TrustClient;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tonic::Code;

use super::{Admission, Credentials, TrustError, pin};
use crate::durable::{DiskError, sync_folder_of};
use crate::{os, session};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A certificate lies in the agent's folder.
#[must_use]
pub fn has_joined(folder: &Path) -> bool {
    Place(folder.join("trust")).held().is_some()
}

/// `folder`: the agent's own. Waits for a coordinator that is away; an answer that waiting does not change is an error.
pub async fn identity(
    folder: &Path,
    address: &str,
    host: &str,
    admission: Admission,
) -> Result<Credentials, TrustError> {
    let place = Place(folder.join("trust"));
    let mark = admission.token.as_ref().map(mark);
    // The same words start the agent every time: a token that has been used for what lies here is not used again.
    let used = place.read("joined");
    if let Some(mut held) = place.held()
        && mark
            .as_ref()
            .is_none_or(|mark| used.as_deref() == Some(mark))
    {
        if let Some(authority) = admission.authority {
            held.authority = authority;
        }
        return Ok(held);
    }
    let (Some(token), Some(mark)) = (&admission.token, mark) else {
        return Err(TrustError::NoToken(address.to_owned()));
    };
    place.prepare(&mark)?;
    let key = place.key()?;
    let mut pauses = ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build();
    let mut told = false;
    loop {
        let asked = Asked {
            address,
            host,
            token,
            key: &key,
        };
        match asked.once(admission.authority.as_deref()).await {
            Ok((certificate, authority)) => {
                place.keep(&certificate, &key, &authority, &mark)?;
                tracing::info!(host, coordinator = address, "joined");
                return Ok(Credentials {
                    authority,
                    own: Some((certificate, key.serialize_pem())),
                });
            }
            Err(error @ TrustError::Unreachable { .. }) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "not joined yet; trying again");
                }
                tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

struct Asked<'a> {
    address: &'a str,
    host: &'a str,
    token: &'a Token,
    key: &'a KeyPair,
}

impl Asked<'_> {
    /// Certificate and CA.
    async fn once(&self, given: Option<&str>) -> Result<(String, String), TrustError> {
        let authority = match given {
            Some(authority) => {
                pin::check(self.address, authority, self.token.pin())?;
                authority.to_owned()
            }
            None => {
                let (address, wanted) = (self.address.to_owned(), self.token.pin());
                let found =
                    tokio::task::spawn_blocking(move || pin::authority(&address, wanted)).await;
                found.map_err(|error| self.unreachable(error.to_string()))??
            }
        };
        let credentials = Credentials {
            authority: authority.clone(),
            own: None,
        };
        let endpoint = session::endpoint(self.address, Some(&credentials))
            .map_err(|_| TrustError::Address(self.address.to_owned()))?;
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|error| self.unreachable(session::with_causes(&error)))?;
        let request = JoinRequest {
            token: self.token.text().expose_secret().to_owned(),
            host: self.host.to_owned(),
            request: request(self.host, self.key)?,
        };
        match TrustClient::new(channel).join(request).await {
            Ok(reply) => {
                let reply = reply.into_inner();
                Ok((reply.certificate, authority))
            }
            Err(status) => Err(match status.code() {
                Code::Unavailable | Code::Unknown | Code::Cancelled | Code::ResourceExhausted => {
                    self.unreachable(status.message().to_owned())
                }
                _ => TrustError::Refused(status.message().to_owned()),
            }),
        }
    }

    fn unreachable(&self, why: String) -> TrustError {
        TrustError::Unreachable {
            address: self.address.to_owned(),
            why,
        }
    }
}

fn request(host: &str, key: &KeyPair) -> Result<Vec<u8>, TrustError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, host);
    let request = params.serialize_request(key);
    let request = request.map_err(|error| TrustError::Key(error.to_string()))?;
    Ok(request.der().to_vec())
}

/// What is kept of a token to know it again.
fn mark(token: &Token) -> String {
    let digest = token.digest(|bytes| Sha256::digest(bytes).into());
    let again: [u8; 32] = Sha256::digest(digest).into();
    again.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Place(PathBuf);

impl Place {
    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(name)).ok()
    }

    /// Certificate and key lie in one file, so they always belong together.
    fn held(&self) -> Option<Credentials> {
        let own = self.read("host.pem")?;
        let authority = self.read("ca.pem")?;
        Some(Credentials {
            authority,
            own: Some((own.clone(), own)),
        })
    }

    /// A new token means a new key; the same one, whose answer was lost, goes on with the key that it began with.
    fn prepare(&self, mark: &str) -> Result<(), TrustError> {
        os::private_folder(&self.0).map_err(DiskError::of("make the folder", &self.0))?;
        if self.read("joining").as_deref() != Some(mark) {
            let key = self.0.join("new.key");
            match std::fs::remove_file(&key) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(DiskError::of("remove", &key)(error).into());
                }
                _ => {}
            }
            self.write("joining", mark)?;
        }
        Ok(())
    }

    fn key(&self) -> Result<KeyPair, TrustError> {
        let wrong = |error: rcgen::Error| TrustError::Key(error.to_string());
        if let Some(key) = self.read("new.key") {
            return KeyPair::from_pem(&key).map_err(wrong);
        }
        let key = KeyPair::generate().map_err(wrong)?;
        self.write("new.key", &key.serialize_pem())?;
        Ok(key)
    }

    /// `joined` goes last: without it all of this is asked for again, with the same key.
    fn keep(
        &self,
        certificate: &str,
        key: &KeyPair,
        authority: &str,
        mark: &str,
    ) -> Result<(), TrustError> {
        self.write("ca.pem", authority)?;
        self.write("host.pem", &format!("{certificate}{}", key.serialize_pem()))?;
        self.write("joined", mark)?;
        Ok(())
    }

    fn write(&self, name: &str, content: &str) -> Result<(), DiskError> {
        let path = self.0.join(name);
        os::write_private(&path, content.as_bytes()).map_err(DiskError::of("write", &path))?;
        sync_folder_of(&path)
    }
}
