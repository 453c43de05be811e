//! The owner's token in the trust folder, for commands on the data folder itself. Its file follows the book: it is written
//! when the token is made anew, removed when it is revoked, and mended at a start when a crash came in between.
//!
//! Refuses to make one where there is none: revoking it is the owner's choice.

use std::io::ErrorKind;
use std::path::Path;

use proto::token::{Pin, Token};
use secrecy::ExposeSecret as _;

use super::book::Book;
use super::ca::sha256;
use super::{TrustError, init, keep};
use crate::store::StoreError;

pub const NAME: &str = "owner";

pub fn keep(folder: &Path, token: &Token) -> Result<(), TrustError> {
    let text = token.text();
    Ok(keep::write(
        &folder.join(keep::OWNER),
        text.expose_secret().as_bytes(),
    )?)
}

pub fn forget(folder: &Path) -> Result<(), TrustError> {
    let path = folder.join(keep::OWNER);
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(StoreError::Io {
            doing: "remove",
            path,
            source,
        }
        .into()),
        _ => Ok(keep::sync_folder_of(&path)?),
    }
}

/// Whoever may write this folder has the CA's key: giving them a token that works gives them nothing new.
pub fn mend(folder: &Path, book: &mut Book, pin: Pin, now: u64) -> Result<(), TrustError> {
    let path = folder.join(keep::OWNER);
    if !path.exists() {
        return Ok(());
    }
    let kept = keep::read(&path)?;
    let works = Token::parse(&kept).is_ok_and(|token| {
        let digest = token.digest(sha256).into();
        book.tokens
            .iter()
            .any(|one| one.name == NAME && one.digest == digest)
    });
    if works {
        return Ok(());
    }
    let token = Token::new(init::random()?, pin);
    if book
        .rotate(NAME, token.digest(sha256).into(), 0, now)
        .is_err()
    {
        // Revoked, and only its file was left.
        return forget(folder);
    }
    keep::write_book(folder, book)?;
    keep(folder, &token)
}
