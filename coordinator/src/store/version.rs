//! The version of what the store keeps. Refuses a store that a newer program wrote; changes of the format are
//! appended here as steps from one version to the next, and a store of each release is kept under tests/old.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use prost::Message;
use proto::store::v1::MetaRecord;
use uuid::{NoContext, Timestamp, Uuid};

use super::pairs::{Pair, Pairs};
use super::{StoreError, disk, keys};

/// 1: the first.
pub const VERSION: u32 = 1;

pub fn pair(meta: &MetaRecord) -> Pair {
    (keys::meta(), meta.encode_to_vec())
}

pub fn fresh(now_ms: u64) -> MetaRecord {
    let nanos = u32::try_from(now_ms % 1000 * 1_000_000).unwrap_or(0);
    MetaRecord {
        version: VERSION,
        store: Uuid::new_v7(Timestamp::from_unix(NoContext, now_ms / 1000, nanos)).to_string(),
        created_ms: now_ms,
    }
}

/// What the store says of itself; `None` when it is new and empty.
pub fn check(kept: &impl Pairs) -> Result<Option<MetaRecord>, StoreError> {
    let Some(meta) = kept.find::<MetaRecord>("the store's meta record", &keys::meta())? else {
        return match kept.range(&[0], &[u8::MAX]).next() {
            None => Ok(None),
            Some(_) => Err(StoreError::corrupt(
                kept.place(),
                "records, but no meta record",
            )),
        };
    };
    match meta.version {
        VERSION => Ok(Some(meta)),
        0 => Err(StoreError::corrupt(
            kept.place(),
            "a meta record without a version",
        )),
        found => Err(StoreError::Newer {
            folder: kept.place().to_path_buf(),
            found,
            known: VERSION,
        }),
    }
}

/// Outside the engine's files, so that a store whose log is gone is not taken for a new one.
fn name_path(data: &Path) -> PathBuf {
    data.join("store.id")
}

/// Of a data folder whose store came up empty.
pub fn refuse_lost(data: &Path) -> Result<(), StoreError> {
    match fs::read_to_string(name_path(data)) {
        Ok(name) => {
            let what = format!(
                "the store {} was here, and its files hold nothing now",
                name.trim()
            );
            Err(StoreError::corrupt(data, what))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("read", &name_path(data), error)),
    }
}

/// Writes the store's name beside it, once.
pub fn name(data: &Path, meta: &MetaRecord) -> Result<(), StoreError> {
    let path = name_path(data);
    if path.exists() {
        return Ok(());
    }
    disk::write_whole(&path, format!("{}\n", meta.store).as_bytes())
}
