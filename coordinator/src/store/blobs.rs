//! Large values as files named by their SHA-256, under `blobs/`. Written once, never changed, checked when read; removed
//! only when no record names them any more.
//!
//! Refuses to hand out a file whose content is not what its name says.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{StoreError, disk};

/// Sweep files up to this many bytes lie in the store, larger ones in a blob.
pub const INLINE_MAX: usize = 8 * 1024;

/// Where a sweep file's bytes are: fill `SweepRecord.toml` and `SweepRecord.blob` from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePlace {
    pub toml: Vec<u8>,
    pub blob: String,
}

#[derive(Clone, Debug)]
pub struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// Of a data folder; what a crash left unfinished is removed.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let folder = data.join("blobs");
        disk::make_folder(&folder)?;
        for path in disk::entries(&folder)? {
            if path.to_string_lossy().ends_with(disk::UNFINISHED) {
                fs::remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            }
        }
        Ok(Self { folder })
    }

    pub fn put(&self, bytes: &[u8]) -> Result<String, StoreError> {
        let digest = digest(bytes);
        let path = self.folder.join(&digest);
        // One of the right length was renamed into place whole; a damaged one is found when read.
        let there = fs::metadata(&path).is_ok_and(|file| file.len() == bytes.len() as u64);
        if there {
            // Its name may not be durable yet if a crash came right after the rename.
            disk::sync_folder(&self.folder)?;
        } else {
            disk::write_whole(&path, bytes)?;
        }
        Ok(digest)
    }

    pub fn get(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.folder.join(digest);
        if !is_digest(digest) {
            return Err(StoreError::corrupt(&path, "not the name of a blob"));
        }
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Missing {
                    doing: "read",
                    path,
                    what: "blob",
                });
            }
            Err(error) => return Err(StoreError::io("read", &path, error)),
        };
        if self::digest(&bytes) != digest {
            return Err(StoreError::corrupt(
                &path,
                "its content does not have the SHA-256 of its name",
            ));
        }
        Ok(bytes)
    }

    /// Not synced: one that comes back after a power loss is only in the way.
    pub fn remove(&self, digest: &str) -> Result<(), StoreError> {
        let path = self.folder.join(digest);
        if !is_digest(digest) {
            return Err(StoreError::corrupt(&path, "not the name of a blob"));
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// The digests of all blobs.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        let names = disk::entries(&self.folder)?;
        let names = names.iter().filter_map(|path| path.file_name()?.to_str());
        Ok(names
            .filter(|name| is_digest(name))
            .map(str::to_owned)
            .collect())
    }
}

/// SHA-256 in hex.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn is_digest(name: &str) -> bool {
    name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_comes_back_and_a_damaged_one_does_not() {
        let data = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(data.path()).unwrap();
        let name = blobs.put(b"hello").unwrap();
        assert_eq!(
            name,
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
        assert_eq!(blobs.get(&name).unwrap(), b"hello");
        fs::write(data.path().join("blobs").join(&name), b"jello").unwrap();
        assert!(matches!(blobs.get(&name), Err(StoreError::Corrupt { .. })));
        assert!(matches!(
            blobs.get("../lock"),
            Err(StoreError::Corrupt { .. })
        ));
        blobs.remove(&name).unwrap();
        blobs.remove(&name).unwrap();
        assert!(matches!(blobs.get(&name), Err(StoreError::Missing { .. })));
        assert!(blobs.remove("../lock").is_err());
        assert!(matches!(
            blobs.get(&digest(b"other")),
            Err(StoreError::Missing { .. })
        ));
    }

    #[test]
    fn what_a_crash_left_unfinished_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(data.path()).unwrap();
        let name = blobs.put(b"whole").unwrap();
        let left = data
            .path()
            .join("blobs")
            .join(format!("{}.tmp", digest(b"half of it")));
        fs::write(&left, b"half").unwrap();
        let blobs = Blobs::open(data.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(blobs.list().unwrap(), [name]);
    }
}
