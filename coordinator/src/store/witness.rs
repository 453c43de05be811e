//! A second place that knows how many commits there were. sled takes a damaged log for one that a crash cut short,
//! and opens with what came before; the witness notices that acknowledged commits are missing.
//!
//! Refuses to be a promise of its own: it is written after the commit is durable and never synced, so after a power
//! cut it may lag, and then it only sees less.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::pairs::Pairs;
use super::{StoreError, keys};

#[derive(Debug)]
pub struct Witness {
    file: File,
    /// In the engine's store.
    commits: u64,
}

impl Witness {
    /// Beside the engine's files, so that it goes where they go.
    pub fn open(folder: &Path, kept: &impl Pairs) -> Result<Self, StoreError> {
        let path = path(folder);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options
            .open(&path)
            .map_err(|error| StoreError::io("open", &path, error))?;
        let commits = kept
            .get(&keys::commits())?
            .map_or(0, |value| number(&value));
        let seen = seen(&mut file).map_err(|error| StoreError::io("read", &path, error))?;
        if commits < seen {
            let what = format!(
                "of {seen} acknowledged commits the last {} are gone; removing {} goes on without them",
                seen - commits,
                path.display()
            );
            return Err(StoreError::corrupt(kept.place(), what));
        }
        Ok(Self { file, commits })
    }

    /// The number of the commit that is about to be made.
    pub fn next(&self) -> u64 {
        self.commits + 1
    }

    /// That commit is durable. An error is passed over: an old number is as good as none.
    pub fn saw(&mut self) {
        self.commits += 1;
        let bytes = [self.commits.to_be_bytes(), (!self.commits).to_be_bytes()].concat();
        let _ = self
            .file
            .rewind()
            .and_then(|()| self.file.write_all(&bytes));
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("commits")
}

/// 0 when it is new, or not whole.
fn seen(file: &mut File) -> std::io::Result<u64> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (count, check) = bytes.split_at(bytes.len().min(8));
    let (count, check) = (number(count), number(check));
    Ok(if count == !check { count } else { 0 })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
