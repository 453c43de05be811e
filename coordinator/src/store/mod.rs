//! The store: what must outlive the coordinator. One trait to write through, one to read through, records of
//! `sweep.store.v1` on both sides, so that another engine (or the one in memory, for tests) can stand in its place.
//!
//! It refuses to decide anything: it keeps what it is given, whole batches or nothing, and says so only once the
//! disk has it. Logs, large values and what travels with sweeps are files beside it ([`AttemptFiles`], [`Blobs`],
//! [`Files`]).

mod backup;
mod batch;
mod blobs;
mod bulk;
mod compact;
mod disk;
mod durable;
mod embedded;
mod error;
mod files;
mod folder;
mod history;
mod keys;
mod load;
mod logs;
mod memory;
mod pairs;
mod verify;
mod version;
mod witness;

use std::path::Path;
use std::sync::Arc;

pub use backup::{Backup, BackupReport, restore};
pub use batch::{Batch, Record};
pub(crate) use blobs::hex;
pub use blobs::{Blobs, FilePlace, INLINE_MAX};
pub use compact::{CompactReport, compact};
pub use embedded::SledStore;
pub use error::StoreError;
pub use files::{Arriving, Files};
pub use folder::{Lock, address, announce, retract};
pub use history::{HistoryPage, HistoryQuery};
pub use load::{Loaded, SweepRecords};
pub use logs::{AttemptFiles, Channel, log_size, read_log};
pub use memory::MemoryStore;
pub use proto::store::v1::{
    AttemptRecord, DeviceRecord, HostRecord, MarkRecord, MetaRecord, ObservationRecord,
    RehearsalRecord, RulingRecord, SweepRecord,
};
pub use verify::{VerifyReport, verify};
pub use version::VERSION;

/// Reads. A reader may be used from any thread beside the one that commits; it sees each record whole, but may see
/// part of a batch that is being written.
pub trait Reader: Send + Sync {
    /// Everything hot at the start of a coordinator. Does not touch the attempts of settled sweeps.
    fn load(&self) -> Result<Loaded, StoreError>;

    /// One sweep with all that belongs to it, open or settled.
    fn sweep(&self, number: u64) -> Result<Option<SweepRecords>, StoreError>;

    /// Heads of sweeps (records without the file's text), newest first; `limit` 0 is all.
    fn sweeps(&self, limit: usize) -> Result<Vec<SweepRecord>, StoreError>;

    /// One page of attempts, newest first.
    fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError>;

    /// A value kept by [`Store::put_blob`], checked against its digest.
    fn blob(&self, digest: &str) -> Result<Vec<u8>, StoreError>;

    /// The sweep file's bytes, wherever they lie. The record must come from [`Reader::sweep`] or [`Loaded::open`].
    fn file(&self, sweep: &SweepRecord) -> Result<Vec<u8>, StoreError> {
        if sweep.blob.is_empty() {
            Ok(sweep.toml.clone())
        } else {
            self.blob(&sweep.blob)
        }
    }
}

/// Writes. There is one writer; whoever holds it groups what waits into one batch.
pub trait Store: Reader {
    /// All of the batch or nothing, and durable when it returns `Ok`. Nothing is written of a batch that is
    /// [`StoreError::Refused`] or for which the disk has no room. After any other error the store refuses further
    /// commits ([`StoreError::Broken`]): what the disk holds is known again only after a restart.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Keeps a value by its SHA-256 (hex), durable when it returns. The same value twice is kept once.
    fn put_blob(&self, bytes: &[u8]) -> Result<String, StoreError>;

    /// Removes a value that no record names any more. That nothing names it is the caller's word; one that is not there
    /// is no error, for a crash may have come in between.
    fn drop_blob(&self, digest: &str) -> Result<(), StoreError>;

    /// Reads for other threads.
    fn reader(&self) -> Arc<dyn Reader>;

    /// A copy of everything, in a new folder: see [`restore`]. No commit can come in between while it runs.
    fn backup(&self, to: &Path, what: Backup) -> Result<BackupReport, StoreError>;

    /// Where a sweep file's bytes go: into the record when small, else into a blob that is durable on return.
    fn place_file(&self, bytes: &[u8]) -> Result<FilePlace, StoreError> {
        if bytes.len() <= INLINE_MAX {
            return Ok(FilePlace {
                toml: bytes.to_vec(),
                blob: String::new(),
            });
        }
        Ok(FilePlace {
            toml: Vec::new(),
            blob: self.put_blob(bytes)?,
        })
    }
}
