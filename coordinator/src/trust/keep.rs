//! The trust folder in the data folder: the authority, the server's certificate, the book, and the owner's token.
//! Every file can be read by its owner only; each is written beside, synced and renamed, so it is whole or not there.
//!
//! Apart from the store, for reasons: a token must be checked without waiting for the engine, also while the store
//! cannot be written; `init` needs no store; a backup of the store, which is made to be carried away, holds nothing that
//! lets anybody in; and restoring one brings no revoked token and no used join token back. There is still one writer:
//! whoever holds the data folder's lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::TrustError;
use super::book::Book;
use crate::store::StoreError;

pub const AUTHORITY: &str = "ca.pem";
pub const AUTHORITY_KEY: &str = "ca.key";
/// Certificate, authority and key in one file: they are replaced together or not at all.
pub const SERVER: &str = "server.pem";
/// A token of the role admin, for commands on the data folder itself: whoever can read it can read the CA's key.
pub const OWNER: &str = "owner.token";
const BOOK: &str = "book.json";
const VERSION: u32 = 1;

pub fn folder(data: &Path) -> PathBuf {
    data.join("trust")
}

/// Durable when this returns.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::Io {
        doing: "write",
        path: path.to_owned(),
        source: error,
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    // One that a crash left could have been made by anybody's hands: never written into.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = private(&beside).map_err(failed)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)?;
    sync_folder_of(path)
}

pub fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(folder) if !cfg!(windows) => File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| StoreError::Io {
                doing: "sync",
                path: folder.to_owned(),
                source,
            }),
        _ => Ok(()),
    }
}

pub fn read(path: &Path) -> Result<String, StoreError> {
    fs::read_to_string(path).map_err(|source| StoreError::Io {
        doing: "read",
        path: path.to_owned(),
        source,
    })
}

pub fn read_book(folder: &Path) -> Result<Book, TrustError> {
    let path = folder.join(BOOK);
    let text = read(&path)?;
    let book: Book = serde_json::from_str(&text).map_err(|error| TrustError::Damaged {
        path: path.clone(),
        // Where, not what: the text of the file is not shown.
        why: format!("line {}, column {}", error.line(), error.column()),
    })?;
    if book.version > VERSION {
        return Err(TrustError::Damaged {
            path,
            why: format!("it was written by a newer version (form {})", book.version),
        });
    }
    Ok(book)
}

pub fn write_book(folder: &Path, book: &Book) -> Result<(), TrustError> {
    let book = Book {
        version: VERSION,
        ..book.clone()
    };
    let text = serde_json::to_vec_pretty(&book)
        .map_err(|error| TrustError::Certificate(error.to_string()))?;
    Ok(write(&folder.join(BOOK), &text)?)
}

/// A new file that only its owner can read. On Windows the data folder's own rights are what counts.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A new folder that only its owner can enter.
pub fn make_folder(path: &Path) -> Result<(), StoreError> {
    #[allow(unused_mut, reason = "changed on Unix only")]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| StoreError::Io {
        doing: "make the folder",
        path: path.to_owned(),
        source,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_kept_is_for_its_owner_only_and_read_again() {
        let data = tempfile::tempdir().unwrap();
        let place = folder(data.path());
        make_folder(&place).unwrap();
        let book = Book {
            version: VERSION,
            names: vec!["localhost".into()],
            ..Book::default()
        };
        write_book(&place, &book).unwrap();
        write_book(&place, &book).unwrap();
        assert_eq!(read_book(&place).unwrap(), book);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place), 0o700);
        assert_eq!(mode(&place.join(BOOK)), 0o600);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        fs::write(place.join(BOOK), "{\"names\": [\"s3cret\"").unwrap();
        let error = read_book(&place).unwrap_err().to_string();
        assert!(
            error.contains("book.json") && !error.contains("s3cret"),
            "{error}"
        );
    }
}
