//! What can go wrong with the store, each as a fragment after "failed to": what, where, and what to do about it.
//! It refuses to be a string: a full disk, a folder in use and a gap in a log are told apart by their variants.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "open {}: {holder} is using it; stop that one, or give another folder with --data",
        folder.display()
    )]
    InUse { folder: PathBuf, holder: String },

    #[error(
        "open {}: its store has version {found}, and this program knows versions up to {known}; \
         use the program that wrote it, or a newer one",
        folder.display()
    )]
    Newer {
        folder: PathBuf,
        found: u32,
        known: u32,
    },

    #[error(
        "{doing} {}: the disk is full ({} MiB free, of which some are kept so that endings can still be \
         written); make room there, then it goes on; nothing that was acknowledged is lost",
        path.display(), free / (1 << 20)
    )]
    DiskFull {
        doing: &'static str,
        path: PathBuf,
        free: u64,
    },

    #[error(
        "{doing} {}: no permission to write there; check its owner and that it is not mounted read-only",
        path.display()
    )]
    ReadOnly {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("{doing} {}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error(
        "read {}: damaged: {what}; `sweep coordinator verify` lists all damage, \
         `sweep coordinator restore` brings a backup back",
        path.display()
    )]
    Corrupt { path: PathBuf, what: String },

    #[error(
        "commit to {}: an earlier write failed ({why}), so what the disk holds is unknown; \
         restart the coordinator once the disk is well",
        folder.display()
    )]
    Broken { folder: PathBuf, why: String },

    #[error("append to {} at byte {offset}: only {have} bytes are there; send on from byte {have}", path.display())]
    Gap {
        path: PathBuf,
        offset: u64,
        have: u64,
    },

    #[error(
        "read page `{token}`: not a page of this history; leave the page out to begin at the newest"
    )]
    BadPage { token: String },

    #[error("keep {what}: {why}")]
    Refused { what: String, why: String },

    #[error("{doing} {}: it is not empty; give a folder that does not exist yet", folder.display())]
    NotEmpty {
        doing: &'static str,
        folder: PathBuf,
    },

    #[error("{doing} {}: there is no {what} there; check the path", path.display())]
    Missing {
        doing: &'static str,
        path: PathBuf,
        what: &'static str,
    },
}

impl StoreError {
    /// An I/O error with its place, sorted into those that a person can do something about.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                doing,
                free: super::disk::free_bytes(&path),
                path,
            },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly {
                doing,
                path,
                source,
            },
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }

    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }

    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Refused {
            what: what.into(),
            why: why.into(),
        }
    }

    /// The disk is full: the same call may succeed later.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}
