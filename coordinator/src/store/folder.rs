//! The data folder: what lies where in it, who may use it, and where its coordinator listens.
//!
//! Refuses a second user: one process holds the folder's lock for as long as it has the store open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{StoreError, disk};

/// The embedded engine's files.
pub fn store(data: &Path) -> PathBuf {
    data.join("store")
}

/// A store that is being written to take the place of `store`.
pub fn store_new(data: &Path) -> PathBuf {
    data.join("store.new")
}

/// The store that was replaced, until the new one is in place.
pub fn store_old(data: &Path) -> PathBuf {
    data.join("store.old")
}

/// Logs and reports of attempts.
pub fn attempts(data: &Path) -> PathBuf {
    data.join("attempts")
}

/// Waited for a lock to become free: a process that was just killed, or a child of it between fork and exec, may
/// hold it for a moment longer.
const PATIENCE_MS: u64 = 500;
const PAUSE_MS: u64 = 20;

/// Held while the store is open; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    pub fn take(data: &Path) -> Result<Self, StoreError> {
        disk::make_folder(data)?;
        let path = data.join("coordinator.lock");
        let failed = |error| StoreError::io("lock", &path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        let mut waits = PATIENCE_MS / PAUSE_MS;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if waits > 0 => waits -= 1,
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse {
                        folder: data.to_path_buf(),
                        holder: holder(&mut file),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            thread::sleep(Duration::from_millis(PAUSE_MS));
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // Windows lets nobody read a locked file: then it is just another process.
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), pid) if !pid.is_empty() => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

fn address_path(data: &Path) -> PathBuf {
    data.join("coordinator.addr")
}

/// Tells others of this folder where its coordinator listens.
pub fn announce(data: &Path, address: &str) -> Result<(), StoreError> {
    disk::write_whole(&address_path(data), format!("{address}\n").as_bytes())
}

/// Where the folder's coordinator listens, or listened: after a crash nobody may be there.
pub fn address(data: &Path) -> Result<Option<String>, StoreError> {
    let path = address_path(data);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|address| !address.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", &path, error)),
    }
}

/// Takes the announcement back, at the end.
pub fn retract(data: &Path) -> Result<(), StoreError> {
    let path = address_path(data);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::io("remove", &path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user() {
        let data = tempfile::tempdir().unwrap();
        let first = Lock::take(data.path()).unwrap();
        let error = Lock::take(data.path()).unwrap_err().to_string();
        let pid = format!("process {}", std::process::id());
        assert!(error.contains(&pid) && error.contains("--data"), "{error}");
        assert!(
            error.contains(&data.path().display().to_string()),
            "{error}"
        );
        drop(first);
        Lock::take(data.path()).unwrap();
    }

    #[test]
    fn an_address_is_announced_and_retracted() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(address(data.path()).unwrap(), None);
        announce(data.path(), "127.0.0.1:7411").unwrap();
        assert_eq!(
            address(data.path()).unwrap().as_deref(),
            Some("127.0.0.1:7411")
        );
        retract(data.path()).unwrap();
        retract(data.path()).unwrap();
        assert_eq!(address(data.path()).unwrap(), None);
    }
}
