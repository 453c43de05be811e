//! Writes a whole store at once, for compact and restore: records as they are, indexes made anew, synced at the end.
//!
//! Refuses an index entry as input: only records are carried over.

use std::path::Path;

use proto::store::v1::AttemptRecord;

use super::durable::Durable;
use super::embedded::{guarded, open_engine};
use super::pairs::{Pair, Pairs};
use super::{StoreError, disk, keys};

const BATCH: usize = 2_000;

pub struct Bulk<'a> {
    db: sled::Db,
    folder: &'a Path,
    pending: sled::Batch,
    waiting: usize,
    pub records: u64,
}

impl<'a> Bulk<'a> {
    /// In a folder that does not exist yet, or is left over from an earlier try.
    pub fn new(folder: &'a Path) -> Result<Self, StoreError> {
        disk::remove_folder(folder)?;
        disk::make_folder(folder)?;
        Ok(Self {
            db: open_engine(folder)?,
            folder,
            pending: sled::Batch::default(),
            waiting: 0,
            records: 0,
        })
    }

    pub fn add(&mut self, (key, value): Pair, from: &impl Pairs) -> Result<(), StoreError> {
        match key.first() {
            Some(&keys::ATTEMPT) => {
                let record: AttemptRecord = from.decode("an attempt", &value)?;
                let position = keys::position(&record);
                self.pending.insert(keys::by_time(&position), Vec::new());
                self.pending
                    .insert(keys::by_host(&record.host, &position), Vec::new());
            }
            Some(first) if keys::RECORDS.contains(first) => {}
            _ => {
                return Err(StoreError::corrupt(
                    from.place(),
                    "a record of an unknown kind",
                ));
            }
        }
        self.pending.insert(key, value);
        self.records += 1;
        self.waiting += 1;
        if self.waiting >= BATCH {
            self.apply()?;
        }
        Ok(())
    }

    /// Durable when this returns, and closed.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        self.apply()?;
        guarded(self.folder, "write", || self.db.flush())?;
        Durable::open(self.folder)?;
        Ok(self.records)
    }

    fn apply(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.pending);
        self.waiting = 0;
        guarded(self.folder, "write", || self.db.apply_batch(batch))
    }
}

/// Every record of a store, in the order of keys, without indexes.
pub fn records(kept: &impl Pairs) -> impl Iterator<Item = Result<Pair, StoreError>> {
    keys::RECORDS
        .into_iter()
        .flat_map(|prefix| kept.with_prefix(&[prefix]))
}
