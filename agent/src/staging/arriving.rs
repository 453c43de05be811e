//! A content on its way into the cache, under another name until it is whole and is what it should be.
//! Refuses anything else; dropped before its end, it leaves nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::durable::DiskError;

pub struct Arriving {
    path: PathBuf,
    part: PathBuf,
    file: File,
    hash: Sha256,
    digest: String,
    left: u64,
}

impl Arriving {
    pub(super) fn new(
        path: PathBuf,
        part: PathBuf,
        digest: &str,
        size: u64,
    ) -> Result<Self, DiskError> {
        Ok(Self {
            file: File::create(&part).map_err(DiskError::of("write", &part))?,
            path,
            part,
            hash: Sha256::new(),
            digest: digest.to_owned(),
            left: size,
        })
    }

    /// `false`: more came than it has.
    pub fn write(&mut self, bytes: &[u8]) -> Result<bool, DiskError> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Ok(false);
        };
        self.left = left;
        self.hash.update(bytes);
        let written = self.file.write_all(bytes);
        written.map_err(DiskError::of("write", &self.part))?;
        Ok(true)
    }

    /// Puts it in its place, or says what came instead. Not synced: a content is checked before each use.
    pub fn finish(mut self) -> Result<Result<(), String>, DiskError> {
        if self.left > 0 {
            return Ok(Err(format!("{} bytes too few", self.left)));
        }
        let found = hex(&std::mem::take(&mut self.hash).finalize());
        if found != self.digest {
            return Ok(Err(found));
        }
        super::cache::read_only(&self.part, false)?;
        fs::rename(&self.part, &self.path).map_err(DiskError::of("write", &self.path))?;
        Ok(Ok(()))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // Renamed by now, unless something was wrong with it.
        let _ = fs::remove_file(&self.part);
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
