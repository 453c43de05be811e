//! The contents that travel with sweeps: `files/ab/SHA256`, written once while they arrive, never changed. Apart from the
//! blobs, which are read whole: these may be large, and are only passed on.
//!
//! Refuses a content that is longer, shorter or another than was announced; nothing of it stays. Removes nothing that
//! is whole, as any sweep may be retried.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jobs::staged::{LARGEST_FILE, is_digest};
use sha2::{Digest, Sha256};

use super::blobs::hex;
use super::{StoreError, disk};

/// Left free on the disk, so that records and logs can still be written.
const RESERVE_BYTES: u64 = 64 << 20;
const PIECE: usize = 1 << 16;

#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    next: Arc<AtomicU64>,
}

impl Files {
    /// Of a data folder; what a crash left unfinished is removed. One at a time: the store's lock is the caller's.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let folder = data.join("files");
        for path in disk::entries(&folder)? {
            if path.to_string_lossy().ends_with(disk::UNFINISHED) {
                fs::remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            }
        }
        Ok(Self {
            folder,
            next: Arc::default(),
        })
    }

    fn path(&self, digest: &str) -> Result<PathBuf, StoreError> {
        if !is_digest(digest) {
            return Err(StoreError::refused(
                format!("the file `{}`", digest.escape_debug()),
                "its name is no SHA-256 in 64 small hexadecimal digits",
            ));
        }
        Ok(self.folder.join(&digest[..2]).join(digest))
    }

    /// Whether it is here, by its length; [`Files::check`] reads it.
    pub fn has(&self, digest: &str, size: u64) -> Result<bool, StoreError> {
        let path = self.path(digest)?;
        Ok(fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == size))
    }

    /// Reads it to its end: an error where it is missing or damaged.
    pub fn check(&self, digest: &str) -> Result<(), StoreError> {
        let path = self.path(digest)?;
        let mut file = self.read(digest)?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(many) => hash.update(&piece[..many]),
                Err(error) => return Err(StoreError::io("read", &path, error)),
            }
        }
        if hex(&hash.finalize()) != digest {
            return Err(StoreError::corrupt(
                &path,
                "its content does not have the SHA-256 of its name",
            ));
        }
        Ok(())
    }

    /// To be passed on unchecked: whoever gets it checks it.
    pub fn read(&self, digest: &str) -> Result<File, StoreError> {
        let path = self.path(digest)?;
        File::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => StoreError::Missing {
                doing: "read",
                path: path.clone(),
                what: "file",
            },
            _ => StoreError::io("read", &path, error),
        })
    }

    /// Begins to take one in.
    pub fn begin(&self, digest: &str, size: u64) -> Result<Arriving, StoreError> {
        let path = self.path(digest)?;
        if size > LARGEST_FILE {
            return Err(StoreError::refused(
                format!("the file {digest}"),
                format!("it has {size} bytes, and a file that travels has at most {LARGEST_FILE}"),
            ));
        }
        disk::make_folder(&self.folder)?;
        let free = disk::free_bytes(&self.folder);
        if free < RESERVE_BYTES + size {
            return Err(StoreError::DiskFull {
                doing: "keep",
                path,
                free,
            });
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let part = format!("{digest}.{number}{}", disk::UNFINISHED);
        let part = self.folder.join(part);
        let file =
            File::create_new(&part).map_err(|error| StoreError::io("write", &part, error))?;
        Ok(Arriving {
            path,
            part,
            file,
            hash: Sha256::new(),
            digest: digest.to_owned(),
            left: size,
        })
    }

    /// The digests of all.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for folder in disk::entries(&self.folder)? {
            if !folder.is_dir() {
                continue;
            }
            let names = disk::entries(&folder)?;
            let names = names.iter().filter_map(|path| path.file_name()?.to_str());
            found.extend(names.filter(|name| is_digest(name)).map(str::to_owned));
        }
        Ok(found)
    }

    /// Copies all into another data folder, each checked. Returns how many.
    pub fn copy_to(&self, data: &Path) -> Result<u64, StoreError> {
        let to = Self::open(data)?;
        let digests = self.list()?;
        for digest in &digests {
            let mut file = self.read(digest)?;
            let failed = |error| StoreError::io("read", &self.folder.join(digest), error);
            let size = file.metadata().map_err(failed)?.len();
            let mut arriving = to.begin(digest, size)?;
            let mut piece = vec![0; PIECE];
            loop {
                let many = file.read(&mut piece).map_err(failed)?;
                if many == 0 {
                    break;
                }
                arriving.write(&piece[..many])?;
            }
            arriving.finish()?;
        }
        Ok(digests.len() as u64)
    }
}

/// A content on its way in. Dropped before it is whole, it leaves nothing.
#[derive(Debug)]
pub struct Arriving {
    path: PathBuf,
    part: PathBuf,
    file: File,
    hash: Sha256,
    digest: String,
    left: u64,
}

impl Arriving {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(self.refused("more bytes came than were announced".to_owned()));
        };
        self.left = left;
        self.hash.update(bytes);
        let written = self.file.write_all(bytes);
        written.map_err(|error| StoreError::io("write", &self.part, error))
    }

    /// Durable under its name when this returns.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if self.left > 0 {
            return Err(self.refused(format!("{} bytes of it did not come", self.left)));
        }
        let found = hex(&std::mem::take(&mut self.hash).finalize());
        if found != self.digest {
            return Err(self.refused(format!("what came has the SHA-256 {found}")));
        }
        let synced = self.file.sync_all();
        synced.map_err(|error| StoreError::io("write", &self.part, error))?;
        if let Some(folder) = self.path.parent() {
            disk::make_folder(folder)?;
        }
        disk::rename(&self.part, &self.path)
    }

    fn refused(&self, why: String) -> StoreError {
        StoreError::refused(format!("the file {}", self.digest), why)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // Renamed by now, unless it was refused or broke off.
        let _ = fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    fn put(files: &Files, digest: &str, size: u64, pieces: &[&[u8]]) -> Result<(), StoreError> {
        let mut arriving = files.begin(digest, size)?;
        pieces.iter().try_for_each(|piece| arriving.write(piece))?;
        arriving.finish()
    }

    #[test]
    fn only_what_was_announced_is_kept() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::open(data.path()).unwrap();
        for (size, pieces) in [
            (5, vec![&b"hallo"[..]]),
            (5, vec![b"hel"]),
            (5, vec![b"hel", b"lo!"]),
            (4, vec![b"hell"]),
        ] {
            let error = put(&files, HELLO, size, &pieces).unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }), "{error}");
            assert!(!files.has(HELLO, 5).unwrap());
        }
        assert_eq!(fs::read_dir(data.path().join("files")).unwrap().count(), 0);
        put(&files, HELLO, 5, &[b"hel", b"lo"]).unwrap();
        put(&files, HELLO, 5, &[b"hello"]).unwrap();
        assert!(files.has(HELLO, 5).unwrap());
        files.check(HELLO).unwrap();
        assert_eq!(files.list().unwrap(), [HELLO]);
    }

    #[test]
    fn names_that_are_no_digests_and_huge_sizes_are_refused() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::open(data.path()).unwrap();
        for name in [
            "",
            "..",
            "../../etc/passwd",
            &"A".repeat(64),
            &"ä".repeat(32),
        ] {
            assert!(files.begin(name, 1).is_err(), "{name}");
            assert!(files.read(name).is_err(), "{name}");
            assert!(files.has(name, 1).is_err(), "{name}");
        }
        assert!(files.begin(HELLO, LARGEST_FILE + 1).is_err());
    }

    #[test]
    fn what_a_crash_left_is_removed_and_damage_is_found() {
        let data = tempfile::tempdir().unwrap();
        let files = Files::open(data.path()).unwrap();
        put(&files, HELLO, 5, &[b"hello"]).unwrap();
        let mut half = files.begin(HELLO, 5).unwrap();
        half.write(b"he").unwrap();
        // As a kill does: no drop.
        std::mem::forget(half);
        assert_eq!(fs::read_dir(data.path().join("files")).unwrap().count(), 2);
        let files = Files::open(data.path()).unwrap();
        assert_eq!(fs::read_dir(data.path().join("files")).unwrap().count(), 1);
        let copy = tempfile::tempdir().unwrap();
        assert_eq!(files.copy_to(copy.path()).unwrap(), 1);
        Files::open(copy.path()).unwrap().check(HELLO).unwrap();
        fs::write(data.path().join("files/2c").join(HELLO), b"hallo").unwrap();
        assert!(files.has(HELLO, 5).unwrap());
        assert!(matches!(
            files.check(HELLO),
            Err(StoreError::Corrupt { .. })
        ));
        let other = tempfile::tempdir().unwrap();
        assert!(files.copy_to(other.path()).is_err());
    }
}
