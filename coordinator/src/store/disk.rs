//! Files written so that they are there after a power cut: write beside, sync, rename, sync the folder.
//!
//! Refuses to guess at errors: every one comes back with the path it is about.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::StoreError;

/// Names of files that are not finished end in this; they mean nothing after a crash.
pub const UNFINISHED: &str = ".tmp";

/// The whole file or none of it under `path`, durable when this returns.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let unfinished = unfinished(path);
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // What is left of it would only take room on a disk that may be full.
        let _ = fs::remove_file(&unfinished);
        return Err(StoreError::io("write", path, error));
    }
    rename(&unfinished, path)
}

/// Durable when this returns.
pub fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| StoreError::io("rename into place", to, error))?;
    sync_parent(to)
}

/// Makes a folder and those above it, with their entries durable.
pub fn make_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        make_folder(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => sync_parent(path),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(StoreError::io("make the folder", path, error)),
    }
}

pub fn remove_folder(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, error)),
    }
}

/// Names in a folder are durable only once the folder itself is synced.
pub fn sync_folder(path: &Path) -> Result<(), StoreError> {
    if cfg!(windows) {
        // NTFS journals its folders, and they cannot be opened as files.
        return Ok(());
    }
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| StoreError::io("sync", path, error))
}

pub fn sync_parent(path: &Path) -> Result<(), StoreError> {
    path.parent().map_or(Ok(()), sync_folder)
}

/// Files and folders below a folder, folders before what is in them; nothing when it does not exist.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::io("read", folder, error);
    let mut paths = Vec::new();
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(paths),
        Err(error) => return Err(failed(error)),
    };
    for entry in listing {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// What an ordinary user may still write there; everything when it cannot be told.
pub fn free_bytes(path: &Path) -> u64 {
    path.ancestors()
        .map(|at| {
            if at.as_os_str().is_empty() {
                Path::new(".")
            } else {
                at
            }
        })
        .find_map(|at| fs4::available_space(at).ok())
        .unwrap_or(u64::MAX)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}
