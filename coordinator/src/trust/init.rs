//! Makes what trust needs, once: CA, server certificate, the owner's token and a first join token. All of it is written
//! beside and renamed into place as one folder, so a crash leaves nothing half made.
//!
//! Refuses a data folder that has a CA already: everybody who trusts it would be locked out.

use std::path::{Path, PathBuf};

use proto::token::{Pin, Token};

use super::book::{Book, TokenEntry, TokenKind};
use super::ca::{self, Authority, sha256};
use super::roles::Role;
use super::{TrustError, hex, keep, owner};
use crate::store::{Lock, StoreError};

/// A join token is for now, not for a drawer.
pub const JOIN_MS: u64 = 24 * 3600 * 1000;
/// Always in the server's certificate: commands on the same machine use them.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub struct Initialised {
    pub folder: PathBuf,
    /// SHA-256 of the CA's certificate, hex.
    pub fingerprint: String,
    pub names: Vec<String>,
    pub join: Token,
    pub join_expires_ms: u64,
}

/// `names`: host names and addresses by which agents and users will reach the coordinator.
pub fn init(data: &Path, names: &[String], now: u64) -> Result<Initialised, TrustError> {
    let folder = keep::folder(data);
    // Nobody may be using the folder: a coordinator that runs would not know of its CA.
    let _lock = Lock::take(data)?;
    if folder.exists() {
        return Err(TrustError::Exists(folder));
    }
    let mut all: Vec<String> = names.to_vec();
    all.extend(ALWAYS.map(str::to_owned));
    let mut known = std::collections::BTreeSet::new();
    all.retain(|name| known.insert(name.clone()));

    let beside = data.join("trust.tmp");
    match std::fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &beside, error));
        }
        _ => {}
    }
    keep::make_folder(&beside)?;
    let made = ca::make(all.first().map_or("here", String::as_str), now, &random()?)?;
    keep::write(&beside.join(keep::AUTHORITY), made.certificate.as_bytes())?;
    keep::write(&beside.join(keep::AUTHORITY_KEY), made.key.as_bytes())?;
    let authority = Authority::read(&made.certificate, &made.key)?;
    let pin = authority.pin();
    let mut book = Book {
        names: all.clone(),
        ..Book::default()
    };
    let (owner, entry) = token("owner", TokenKind::User { role: Role::Admin }, 0, pin, now)?;
    book.add(entry)?;
    owner::keep(&beside, &owner)?;
    let kind = TokenKind::Join {
        host: None,
        used: None,
    };
    let (join, entry) = token("", kind, JOIN_MS, pin, now)?;
    book.add(entry)?;
    // Writes the book, too.
    renew_server(&beside, &authority, &mut book, now)?;
    std::fs::rename(&beside, &folder)
        .map_err(|error| failed("rename into place", &folder, error))?;
    keep::sync_folder_of(&folder)?;
    Ok(Initialised {
        folder,
        fingerprint: hex::text(&pin),
        names: all,
        join,
        join_expires_ms: now + JOIN_MS,
    })
}

/// A certificate for the same names, with a key of its own.
pub fn renew_server(
    folder: &Path,
    authority: &Authority,
    book: &mut Book,
    now: u64,
) -> Result<(), TrustError> {
    let signed = authority.server(&book.names, now, &random()?)?;
    let whole = format!("{}{}", signed.certificate, signed.key);
    keep::write(&folder.join(keep::SERVER), whole.as_bytes())?;
    book.server_expires_ms = signed.expires_ms;
    keep::write_book(folder, book)
}

/// A join token without a name gets one.
pub fn token(
    name: &str,
    kind: TokenKind,
    lasts_ms: u64,
    pin: Pin,
    now: u64,
) -> Result<(Token, TokenEntry), TrustError> {
    let token = Token::new(random()?, pin);
    let digest = token.digest(sha256);
    let lasts_ms = match (&kind, lasts_ms) {
        (TokenKind::Join { .. }, 0) => JOIN_MS,
        (_, lasts) => lasts,
    };
    let name = match (&kind, name) {
        (TokenKind::Join { .. }, "") => format!("join-{}", &hex::text(&digest)[..8]),
        (_, name) => name.to_owned(),
    };
    let entry = TokenEntry {
        name,
        digest: digest.into(),
        created_ms: now,
        expires_ms: if lasts_ms == 0 {
            0
        } else {
            now.saturating_add(lasts_ms)
        },
        kind,
    };
    Ok((token, entry))
}

pub fn random<const MANY: usize>() -> Result<[u8; MANY], TrustError> {
    let mut bytes = [0; MANY];
    getrandom::fill(&mut bytes).map_err(|error| TrustError::Random(error.to_string()))?;
    Ok(bytes)
}

fn failed(doing: &'static str, path: &Path, source: std::io::Error) -> TrustError {
    TrustError::Disk(StoreError::Io {
        doing,
        path: path.to_owned(),
        source,
    })
}
