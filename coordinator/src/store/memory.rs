//! A store in memory, for tests of what stands on a store: the same keys and the same answers as the embedded one.
//!
//! Refuses to be durable: it is gone with its process.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::store::v1::{MetaRecord, SweepRecord};

use super::pairs::{self, PairIter, Pairs};
use super::{
    Backup, BackupReport, Batch, HistoryPage, HistoryQuery, Loaded, Reader, Store, StoreError,
    SweepRecords, blobs, history, load, version,
};

/// Clones share what they keep, so a "restarted" coordinator in a test finds it again.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    blobs: HashMap<String, Vec<u8>>,
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        let store = Self::default();
        let meta = MetaRecord {
            version: version::VERSION,
            store: "memory".to_owned(),
            created_ms: 0,
        };
        let (key, value) = version::pair(&meta);
        store.kept().pairs.insert(key, value);
        store
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pairs for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.kept().pairs.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8]) -> PairIter<'_> {
        let found: Vec<_> = self
            .kept()
            .pairs
            .range(from.to_vec()..to.to_vec())
            .map(|(key, value)| Ok((key.clone(), value.clone())))
            .collect();
        Box::new(found.into_iter())
    }

    fn place(&self) -> &Path {
        Path::new("memory")
    }
}

impl Reader for MemoryStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        load::load(self)
    }

    fn sweep(&self, number: u64) -> Result<Option<SweepRecords>, StoreError> {
        load::sweep(self, number)
    }

    fn sweeps(&self, limit: usize) -> Result<Vec<SweepRecord>, StoreError> {
        load::sweeps(self, limit)
    }

    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        history::history(self, query)
    }

    fn blob(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        let found = self.kept().blobs.get(digest).cloned();
        found.ok_or_else(|| StoreError::Missing {
            doing: "read",
            path: Path::new("memory").join(digest),
            what: "blob",
        })
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let writes = pairs::writes(batch, self)?;
        let mut kept = self.kept();
        for (key, value) in writes {
            match value {
                Some(value) => kept.pairs.insert(key, value),
                None => kept.pairs.remove(&key),
            };
        }
        Ok(())
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<String, StoreError> {
        let digest = blobs::digest(bytes);
        self.kept().blobs.insert(digest.clone(), bytes.to_vec());
        Ok(digest)
    }

    fn drop_blob(&self, digest: &str) -> Result<(), StoreError> {
        self.kept().blobs.remove(digest);
        Ok(())
    }

    fn backup(&self, to: &Path, _: Backup) -> Result<BackupReport, StoreError> {
        Err(StoreError::refused(
            format!("a backup in {}", to.display()),
            "a store in memory has none",
        ))
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}
