//! The embedded store: sled 0.34, one tree, one atomic batch for each commit, and an acknowledgement only once
//! fdatasync has returned.
//!
//! Why so: sled's own flush ends in sync_file_range, which leaves file sizes and the disk's write cache alone, so
//! its files are synced here after it. Refuses to go on after a write that failed: a second fsync of the same pages
//! reports success without having written them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::store::v1::{MetaRecord, SweepRecord};

use super::durable::Durable;
use super::folder::{self, Lock};
use super::pairs::{self, PairIter, Pairs, Writes};
use super::witness::Witness;
use super::{
    Backup, BackupReport, Batch, Blobs, HistoryPage, HistoryQuery, Loaded, Reader, Store,
    StoreError, SweepRecords, backup, compact, disk, history, keys, load, version,
};

/// Of sled's page cache. Hot state is in the coordinator's memory, so this only serves history.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// Left free on the disk: sled must never meet a full one in the middle of a write.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;
/// What a written byte costs at most until sled tidies up: pages are rewritten whole.
const AMPLIFICATION: u64 = 8;

pub struct SledStore {
    tree: Arc<Tree>,
    durable: Durable,
    witness: Witness,
    broken: Option<String>,
}

impl SledStore {
    /// Opens the store of a data folder, or makes a new one there.
    pub fn open(data: &Path, now_ms: u64) -> Result<Self, StoreError> {
        let lock = Lock::take(data)?;
        compact::settle(data)?;
        let mut store = Self::with_lock(data, lock)?;
        if version::check(&*store.tree)?.is_none() {
            version::refuse_lost(data)?;
            let (key, value) = version::pair(&version::fresh(now_ms));
            store.write(Writes::from([(key, Some(value))]))?;
        }
        version::name(data, &store.meta()?)?;
        Ok(store)
    }

    /// Opens a store that must be there already: for backup, verify and compact.
    pub fn open_existing(data: &Path) -> Result<Self, StoreError> {
        let missing = || StoreError::Missing {
            doing: "open",
            path: data.to_path_buf(),
            what: "store",
        };
        if !data.is_dir() {
            return Err(missing());
        }
        let lock = Lock::take(data)?;
        compact::settle(data)?;
        if !folder::store(data).join("db").is_file() {
            return Err(missing());
        }
        let store = Self::with_lock(data, lock)?;
        version::check(&*store.tree)?;
        Ok(store)
    }

    fn with_lock(data: &Path, lock: Lock) -> Result<Self, StoreError> {
        let engine = folder::store(data);
        disk::make_folder(&engine)?;
        let db = open_engine(&engine)?;
        let tree = Tree {
            db,
            data: data.to_path_buf(),
            blobs: Blobs::open(data)?,
            lock: Arc::new(lock),
        };
        Ok(Self {
            witness: Witness::open(&engine, &tree)?,
            // Last: it syncs what opening has written.
            durable: Durable::open(&engine)?,
            tree: Arc::new(tree),
            broken: None,
        })
    }

    /// What the store says of itself.
    pub fn meta(&self) -> Result<MetaRecord, StoreError> {
        Ok(version::check(&*self.tree)?.unwrap_or_default())
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Closes the engine and keeps the folder.
    pub(super) fn close(self) -> Arc<Lock> {
        self.tree.lock.clone()
    }

    fn check_room(&self, writes: &Writes) -> Result<(), StoreError> {
        let bytes = writes
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        let bytes = bytes.sum::<usize>() as u64;
        let free = disk::free_bytes(&self.tree.data);
        if free < RESERVE_BYTES + bytes * AMPLIFICATION {
            return Err(StoreError::DiskFull {
                doing: "commit to",
                path: self.tree.data.clone(),
                free,
            });
        }
        Ok(())
    }

    fn write(&mut self, writes: Writes) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        batch.insert(
            keys::commits(),
            self.witness.next().to_be_bytes().as_slice(),
        );
        let db = &self.tree.db;
        guarded(&self.tree.data, "commit to", || {
            db.apply_batch(batch)?;
            db.flush().map(|_| ())
        })?;
        self.durable.sync()?;
        self.witness.saw();
        Ok(())
    }
}

impl Store for SledStore {
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(why) = &self.broken {
            return Err(StoreError::Broken {
                folder: self.tree.data.clone(),
                why: why.clone(),
            });
        }
        let writes = pairs::writes(batch, &*self.tree)?;
        if writes.is_empty() {
            return Ok(());
        }
        self.check_room(&writes)?;
        let written = self.write(writes);
        if let Err(error) = &written {
            self.broken = Some(error.to_string());
        }
        written
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<String, StoreError> {
        self.tree.blobs.put(bytes)
    }

    fn drop_blob(&self, digest: &str) -> Result<(), StoreError> {
        self.tree.blobs.remove(digest)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.tree.clone()
    }

    fn backup(&self, to: &Path, what: Backup) -> Result<BackupReport, StoreError> {
        backup::backup(&*self.tree, &self.tree.data, &self.tree.blobs, to, what)
    }
}

/// The open engine. The lock goes with it: it is free again once the last reader is gone.
pub struct Tree {
    db: sled::Db,
    data: PathBuf,
    blobs: Blobs,
    lock: Arc<Lock>,
}

impl Tree {
    pub(super) fn blobs(&self) -> &Blobs {
        &self.blobs
    }
}

impl Pairs for Tree {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = guarded(&self.data, "read", || self.db.get(key))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn range(&self, from: &[u8], to: &[u8]) -> PairIter<'_> {
        let mut found = self.db.range(from..to);
        Box::new(std::iter::from_fn(move || {
            let pair = guarded(&self.data, "read", || found.next().transpose());
            pair.transpose()
                .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
        }))
    }

    fn place(&self) -> &Path {
        &self.data
    }
}

macro_rules! reads {
    ($name:ty, $store:ident => $tree:expr) => {
        impl Reader for $name {
            fn load(&self) -> Result<Loaded, StoreError> {
                let $store = self;
                load::load($tree)
            }

            fn sweep(&self, number: u64) -> Result<Option<SweepRecords>, StoreError> {
                let $store = self;
                load::sweep($tree, number)
            }

            fn sweeps(&self, limit: usize) -> Result<Vec<SweepRecord>, StoreError> {
                let $store = self;
                load::sweeps($tree, limit)
            }

            fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
                let $store = self;
                history::history($tree, query)
            }

            fn blob(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
                let $store = self;
                $tree.blobs.get(digest)
            }
        }
    };
}
reads!(Tree, tree => tree);
reads!(SledStore, store => &*store.tree);

/// Opens sled in a folder: no thread of its own that flushes, since it would stop silently on an error.
pub fn open_engine(folder: &Path) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None);
    guarded(folder, "open", || config.open())
}

/// Runs what may fail in sled, which panics on some kinds of damage.
pub fn guarded<T>(
    path: &Path,
    doing: &'static str,
    work: impl FnOnce() -> sled::Result<T>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| from_sled(path, doing, error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(StoreError::corrupt(path, text.unwrap_or("sled gave up")))
        }
    }
}

fn from_sled(path: &Path, doing: &'static str, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => StoreError::io(doing, path, error),
        sled::Error::Corruption { .. } => {
            StoreError::corrupt(path, "its log does not match its checksums")
        }
        other => StoreError::corrupt(path, other.to_string()),
    }
}
