//! Who may talk to a coordinator, and how it proves itself: its own CA and certificate, tokens of users, join tokens,
//! certificates of hosts. [`init`] makes it, [`Trust::open`] reads it, `gate` asks it for every request.
//!
//! A change is on the disk before anybody is told of it: a join token that was used is used, whatever happens to the
//! answer. Refuses to keep or to say a secret: of a token only its SHA-256 stays here.

pub mod audit;
mod book;
mod ca;
mod gate;
pub mod hex;
mod init;
mod join;
mod keep;
mod limit;
mod owner;
mod roles;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use proto::token::Token;
use thiserror::Error;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

pub use audit::{Caller, Who};
pub use book::{Book, Denied, Digest, HostEntry, TokenEntry, TokenKind, is_past};
pub use gate::{Gate, of as status_of};
pub use init::{Initialised, init};
pub use join::Joined;
pub use roles::Role;

use crate::store::StoreError;
use ca::{Authority, sha256};
use limit::Limit;

/// A handshake that takes longer is somebody who holds connections open.
const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(10);
/// The server's certificate is made anew at a start when it lasts no longer than this.
const RENEW_MS: u64 = 60 * 24 * 3600 * 1000;

#[derive(Debug, Error)]
pub enum TrustError {
    #[error(transparent)]
    Disk(#[from] StoreError),
    #[error("use {}: {why}; restore it from a copy, or move the folder away and run sweep coordinator init again", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("make or read a certificate: {0}")]
    Certificate(String),
    #[error("overwrite {}: it holds the CA that agents and users trust; to begin anew, move it away first", .0.display())]
    Exists(PathBuf),
    #[error("get random bytes from the system: {0}")]
    Random(String),
    #[error("the certificate request is damaged, or is not signed by its own key")]
    Request,
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl TrustError {
    fn certificate(error: rcgen::Error) -> Self {
        Self::Certificate(error.to_string())
    }
}

pub struct Trust {
    folder: PathBuf,
    authority: Authority,
    server: Identity,
    /// Readers take the book of the moment; it is replaced whole, once the new one is on the disk.
    book: RwLock<Arc<Book>>,
    writing: Mutex<()>,
    limit: Mutex<Limit>,
}

impl Trust {
    /// Was `init` run on this data folder?
    pub fn is_there(data: &Path) -> bool {
        keep::folder(data).exists()
    }

    /// `None` for a data folder without `init`. The data folder's lock is the caller's.
    pub fn open(data: &Path, now: u64) -> Result<Option<Self>, TrustError> {
        let folder = keep::folder(data);
        if !folder.exists() {
            return Ok(None);
        }
        let file = |name: &str| keep::read(&folder.join(name));
        let authority = Authority::read(&file(keep::AUTHORITY)?, &file(keep::AUTHORITY_KEY)?)?;
        let mut book = keep::read_book(&folder)?;
        if is_past(book.server_expires_ms.saturating_sub(RENEW_MS), now) {
            init::renew_server(&folder, &authority, &mut book, now)?;
            tracing::info!("the server's certificate was about to expire and was made anew");
        }
        owner::mend(&folder, &mut book, authority.pin(), now)?;
        let server = file(keep::SERVER)?;
        let server = Identity::from_pem(&server, &server);
        Ok(Some(Self {
            folder,
            authority,
            server,
            book: RwLock::new(Arc::new(book)),
            writing: Mutex::new(()),
            limit: Mutex::default(),
        }))
    }

    /// Hosts show certificates of our CA, users none: who may do what is decided for each request.
    pub fn tls(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.server.clone())
            .client_ca_root(Certificate::from_pem(self.authority.pem()))
            .client_auth_optional(true)
            .timeout(HANDSHAKE)
    }

    pub fn book(&self) -> Arc<Book> {
        let book = self.book.read().unwrap_or_else(PoisonError::into_inner);
        book.clone()
    }

    pub fn user(&self, token: &str, now: u64) -> Result<(String, Role), Denied> {
        let token = Token::parse(token).map_err(|_| Denied::Unknown)?;
        let book = self.book();
        let (name, role) = book.user(&token.digest(sha256).into(), now)?;
        Ok((name.to_owned(), role))
    }

    /// The name of the host that has this certificate (DER).
    pub fn host(&self, certificate: &[u8]) -> Option<(String, Digest)> {
        let digest = sha256(certificate);
        let book = self.book();
        book.host(&digest).map(|host| (host.name.clone(), digest))
    }

    /// Is this host still what it was when its session began?
    pub fn still_trusts(&self, caller: &Caller) -> bool {
        match &caller.who {
            Who::Host { name, certificate } => self
                .book()
                .host(certificate)
                .is_some_and(|host| host.name == *name),
            _ => false,
        }
    }

    /// A new token and its entry. Blocks on the disk.
    pub fn create(
        &self,
        name: &str,
        kind: TokenKind,
        lasts_ms: u64,
        now: u64,
    ) -> Result<(Token, TokenEntry), TrustError> {
        let (token, entry) = init::token(name, kind, lasts_ms, self.authority.pin(), now)?;
        self.change(|book| Ok(book.add(entry.clone())?))?;
        Ok((token, entry))
    }

    pub fn rotate(
        &self,
        name: &str,
        lasts_ms: u64,
        now: u64,
    ) -> Result<(Token, TokenEntry), TrustError> {
        let token = Token::new(init::random()?, self.authority.pin());
        let digest = token.digest(sha256).into();
        let entry = self.change(|book| Ok(book.rotate(name, digest, lasts_ms, now)?.clone()))?;
        if name == owner::NAME {
            owner::keep(&self.folder, &token)?;
        }
        Ok((token, entry))
    }

    pub fn revoke(&self, name: &str, host: bool, now: u64) -> Result<(), TrustError> {
        self.change(|book| match host {
            true => Ok(book.revoke_host(name)?),
            false => Ok(book.revoke_token(name, now)?),
        })?;
        if name == owner::NAME && !host {
            owner::forget(&self.folder)?;
        }
        Ok(())
    }

    /// One change at a time: on the disk first, then for all.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Book) -> Result<T, TrustError>,
    ) -> Result<T, TrustError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut book = Book::clone(&self.book());
        let value = change(&mut book)?;
        keep::write_book(&self.folder, &book)?;
        *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
        Ok(value)
    }

    pub fn allows(&self, address: Option<IpAddr>, now: u64) -> bool {
        address.is_none_or(|address| self.limit().allows(address, now))
    }

    pub fn failed(&self, address: Option<IpAddr>, now: u64) {
        if let Some(address) = address {
            self.limit().failed(address, now);
        }
    }

    fn limit(&self) -> MutexGuard<'_, Limit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
