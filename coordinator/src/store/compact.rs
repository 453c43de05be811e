//! Writes a store anew, since the engine's files never shrink. The new one is complete and durable before it takes
//! the place of the old one, and the old one is there until then.
//!
//! Refuses an open store. A crash at any step is settled when the folder is opened next.

use std::path::Path;

use super::bulk::{self, Bulk};
use super::{SledStore, StoreError, disk, folder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactReport {
    pub records: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Compacts the closed store of a data folder.
pub fn compact(data: &Path) -> Result<CompactReport, StoreError> {
    let (store, fresh) = (folder::store(data), folder::store_new(data));
    let old = SledStore::open_existing(data)?;
    let bytes_before = bytes_in(&store)?;
    let written = rewrite(&old, &fresh);
    if written.is_err() {
        // What went wrong is the first error; the next opening removes what this leaves.
        let _ = disk::remove_folder(&fresh);
    }
    let records = written?;
    let lock = old.close();
    swap(data)?;
    let bytes_after = bytes_in(&store)?;
    drop(lock);
    Ok(CompactReport {
        records,
        bytes_before,
        bytes_after,
    })
}

fn rewrite(old: &SledStore, fresh: &Path) -> Result<u64, StoreError> {
    let mut bulk = Bulk::new(fresh)?;
    for pair in bulk::records(old.tree()) {
        bulk.add(pair?, old.tree())?;
    }
    bulk.finish()
}

fn swap(data: &Path) -> Result<(), StoreError> {
    let (store, fresh, old) = (
        folder::store(data),
        folder::store_new(data),
        folder::store_old(data),
    );
    disk::rename(&store, &old)?;
    disk::rename(&fresh, &store)?;
    disk::remove_folder(&old)
}

/// Ends what a crash interrupted, before a store is opened. The old store is moved away only once the new one is
/// complete, so whether `store` is there says which of the two counts.
pub fn settle(data: &Path) -> Result<(), StoreError> {
    let (store, fresh, old) = (
        folder::store(data),
        folder::store_new(data),
        folder::store_old(data),
    );
    if !store.exists() && old.exists() {
        let next = if fresh.exists() { &fresh } else { &old };
        disk::rename(next, &store)?;
    }
    disk::remove_folder(&fresh)?;
    disk::remove_folder(&old)
}

/// Of a folder and all below it.
pub fn bytes_in(folder: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for path in disk::entries(folder)? {
        bytes += match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => bytes_in(&path)?,
            Ok(meta) => meta.len(),
            Err(error) => return Err(StoreError::io("read", &path, error)),
        };
    }
    Ok(bytes)
}
