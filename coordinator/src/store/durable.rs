//! Makes sled's files durable. `db` is the log and holds everything; a tree node that outgrows a quarter of a
//! segment becomes a file of its own under `blobs/`; `conf` and `snap.*` are only written while opening.
//!
//! Refuses to call anything durable whose name in the folder may still be lost.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::{StoreError, disk};

#[derive(Debug)]
pub struct Durable {
    db: File,
    db_path: PathBuf,
    nodes: PathBuf,
    synced: BTreeSet<PathBuf>,
}

impl Durable {
    /// After sled has opened the folder: syncs all that is there, names included.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let db_path = folder.join("db");
        let mut durable = Self {
            db: open(&db_path)?,
            db_path,
            nodes: folder.join("blobs"),
            synced: BTreeSet::new(),
        };
        for path in disk::entries(folder)? {
            if path.is_file() {
                sync_whole(&path)?;
            }
        }
        durable.sync()?;
        disk::sync_folder(folder)?;
        disk::sync_parent(folder)?;
        Ok(durable)
    }

    /// After sled's flush: what was flushed is durable when this returns.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let nodes: BTreeSet<_> = disk::entries(&self.nodes)?.into_iter().collect();
        let mut fresh = false;
        for node in nodes.difference(&self.synced) {
            // sled removes nodes that were replaced, at any moment: such a one is not needed.
            if node.exists() {
                sync_whole(node)?;
                fresh = true;
            }
        }
        if fresh {
            disk::sync_folder(&self.nodes)?;
        }
        self.synced = nodes;
        self.db
            .sync_data()
            .map_err(|error| StoreError::io("sync", &self.db_path, error))
    }
}

fn sync_whole(path: &Path) -> Result<(), StoreError> {
    match open(path)?.sync_all() {
        Ok(()) => Ok(()),
        Err(error) => Err(StoreError::io("sync", path, error)),
    }
}

/// For syncing only; Windows syncs no file that was opened just to read.
fn open(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| StoreError::io("open", path, error))
}
