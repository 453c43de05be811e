//! The folder of one attempt. It is the whole truth about the attempt on this host: the shepherd writes it, the
//! agent reads it, and either may die at any moment.
//!
//! Who holds `lock` may write `ending.json`: the shepherd from its first moment to its last, or an agent that found
//! no shepherd there. So there is one ending, and a shepherd that comes late starts nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::facts::Facts;
use super::order::Order;
use super::state::State;
use crate::durable::{self, DiskError};

const WORTH_A_SYNC_MS: u64 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFolder(PathBuf);

impl AttemptFolder {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is to be done; there before anything starts.
    #[must_use]
    pub fn order(&self) -> PathBuf {
        self.0.join("order.json")
    }

    /// What the program finds in `$SWEEP_CONFIG`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.0.join("config.json")
    }

    /// What drivers reported of its devices while it ran; the agent writes it.
    #[must_use]
    pub fn faults(&self) -> PathBuf {
        self.0.join("faults")
    }

    /// Standard output and error of the program, as they came.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// What the program appends to `$SWEEP_REPORT`.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.0.join("report.jsonl")
    }

    /// What the program may write to `$SWEEP_STREAM_FILE`.
    #[must_use]
    pub fn stream(&self) -> PathBuf {
        self.0.join("stream.gz")
    }

    /// What the coordinator said of the stream: then it is not owed any more.
    fn stream_told(&self) -> PathBuf {
        self.0.join("stream.told")
    }

    /// The coordinator has the ending, and has said nothing of the stream yet.
    #[must_use]
    pub fn owes_stream(&self) -> bool {
        // Whatever it is: also of what cannot be sent the coordinator is told.
        let is_there = fs::symlink_metadata(self.stream()).is_ok();
        is_there && self.is_acked() && !self.stream_told().exists()
    }

    pub fn write_stream_told(&self, note: &str) -> Result<(), DiskError> {
        durable::replace(&self.stream_told(), note.as_bytes()).map(drop)
    }

    /// Resident memory over time: milliseconds and bytes, one line each.
    #[must_use]
    pub fn samples(&self) -> PathBuf {
        self.0.join("samples")
    }

    #[must_use]
    pub fn ending(&self) -> PathBuf {
        self.0.join("ending.json")
    }

    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn stop(&self) -> PathBuf {
        self.0.join("stop")
    }

    fn acked(&self) -> PathBuf {
        self.0.join("acked")
    }

    /// True for one holder at a time; released when the file is dropped or its process ends.
    pub fn lock(&self) -> Result<Option<File>, DiskError> {
        let path = self.0.join("lock");
        let mut options = OpenOptions::new();
        // Windows locks no file that is open for appending only.
        let file = options.create(true).read(true).append(true).open(&path);
        let file = file.map_err(DiskError::of("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(DiskError::of("lock", &path)(error)),
        }
    }

    pub fn write_order(&self, order: &Order, config: &str) -> Result<(), DiskError> {
        fs::create_dir_all(&self.0).map_err(DiskError::of("make the folder", &self.0))?;
        // The order comes last and whole: without it there is no attempt.
        let path = self.config();
        fs::write(&path, config).map_err(DiskError::of("write", &path))?;
        durable::replace(&self.order(), &json(order)).map(drop)
    }

    /// Makes the order outlive a power loss.
    pub fn sync_order(&self) -> Result<(), DiskError> {
        let path = self.order();
        // Windows syncs what is open for writing.
        let opened = OpenOptions::new().write(true).open(&path);
        let synced = opened.and_then(|file| file.sync_all());
        synced.map_err(DiskError::of("write", &path))?;
        durable::sync_folder_of(&path)
    }

    pub fn read_order(&self) -> Result<Order, DiskError> {
        read(&self.order())
    }

    pub fn write_state(&self, state: &State) -> Result<(), DiskError> {
        durable::replace(&self.state(), &json(state)).map(drop)
    }

    #[must_use]
    pub fn read_state(&self) -> Option<State> {
        read(&self.state()).ok()
    }

    /// The caller holds the lock. Synced, unless the attempt was so short that doing it again is cheaper than waiting
    /// for the disk: a power loss may then turn its ending into "interrupted", as long as the coordinator has not
    /// committed it, and only what the coordinator has committed counts.
    pub fn write_ending(&self, facts: &Facts) -> Result<(), DiskError> {
        if facts.ran_ms < WORTH_A_SYNC_MS {
            return durable::replace(&self.ending(), &json(facts)).map(drop);
        }
        durable::replace_synced(&self.ending(), &json(facts))
    }

    /// Absent also when a power loss left half of it.
    #[must_use]
    pub fn read_ending(&self) -> Option<Facts> {
        read(&self.ending()).ok()
    }

    /// Asks the shepherd to end the attempt, and says why; the first reason stays.
    pub fn write_stop(&self, reason: &str) -> Result<(), DiskError> {
        if self.read_stop().is_some() {
            return Ok(());
        }
        durable::replace(&self.stop(), reason.as_bytes()).map(drop)
    }

    #[must_use]
    pub fn read_stop(&self) -> Option<String> {
        fs::read_to_string(self.stop()).ok()
    }

    /// Notes what a driver reported of a device of this attempt, a line each.
    pub fn add_fault(&self, what: &str) -> Result<(), DiskError> {
        let path = self.faults();
        let line = format!("{}\n", what.replace('\n', " "));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(DiskError::of("write", &path))
    }

    #[must_use]
    pub fn read_faults(&self) -> Vec<String> {
        let text = fs::read_to_string(self.faults()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The coordinator has committed the ending: nothing of this attempt is owed any more.
    pub fn write_acked(&self) -> Result<(), DiskError> {
        let path = self.acked();
        File::create(&path)
            .map(drop)
            .map_err(DiskError::of("write", &path))
    }

    #[must_use]
    pub fn is_acked(&self) -> bool {
        self.acked().exists()
    }

    /// When it was acknowledged.
    pub fn acked_at(&self) -> io::Result<std::time::SystemTime> {
        fs::metadata(self.acked())?.modified()
    }
}

fn json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    // Plain structures of text and numbers: this cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, DiskError> {
    let bytes = fs::read(path).map_err(DiskError::of("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| DiskError::of("read", path)(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_stop_stays() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = AttemptFolder::new(folder.path().to_owned());
        attempt.write_stop("cancelled").unwrap();
        attempt.write_stop("suspended").unwrap();
        assert_eq!(attempt.read_stop().as_deref(), Some("cancelled"));
    }

    #[test]
    fn the_lock_has_one_holder_and_half_an_ending_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = AttemptFolder::new(folder.path().to_owned());
        let held = attempt.lock().unwrap();
        assert!(held.is_some());
        assert!(attempt.lock().unwrap().is_none());
        drop(held);
        assert!(attempt.lock().unwrap().is_some());
        fs::write(attempt.ending(), b"{\"exit\": 0, \"ran").unwrap();
        assert!(attempt.read_ending().is_none());
    }
}
