//! The agent's own folder: who owns it, where each attempt's folder lies in it.
//! Refuses a second agent on the same folder: two would both adopt, stop and report the same attempts.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use jobs::AttemptId;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::attempt::AttemptFolder;
use crate::durable::DiskError;
use crate::os;

#[derive(Debug, Error)]
pub enum FolderError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(
        "take the folder {}: another agent works on it; end that one first, or give this one a folder of its own",
        .0.display()
    )]
    Taken(PathBuf),
}

#[derive(Clone)]
pub struct AgentFolder {
    path: PathBuf,
}

/// The folder is this agent's until this is dropped.
pub struct FolderLock(#[expect(dead_code, reason = "held, not read")] File);

impl AgentFolder {
    /// Makes the folder if needed and takes it.
    pub fn take(path: &Path) -> Result<(Self, FolderLock), FolderError> {
        os::private_folder(path).map_err(DiskError::of("make the folder", path))?;
        let path = os::absolute(path).map_err(DiskError::of("open the folder", path))?;
        let lock_path = path.join("lock");
        // Windows locks no file that is open for appending only.
        let lock = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&lock_path);
        let lock = lock.map_err(DiskError::of("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok((Self { path }, FolderLock(lock))),
            Err(TryLockError::WouldBlock) => Err(FolderError::Taken(path)),
            Err(TryLockError::Error(error)) => Err(DiskError::of("lock", &lock_path)(error).into()),
        }
    }

    #[must_use]
    pub fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }

    #[must_use]
    pub fn attempts(&self) -> PathBuf {
        self.path.join("attempts")
    }

    /// What rehearsals need while they run.
    #[must_use]
    pub fn rehearsals(&self) -> PathBuf {
        self.path.join("rehearsals")
    }

    /// Files of sweeps, fetched from the coordinator.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.path.join("cache")
    }

    /// What Python compiled, of all programs; may be removed at any time.
    #[must_use]
    pub fn byte_code(&self) -> PathBuf {
        self.cache().join("python")
    }

    /// What programs keep for those after them and can make again; may be removed while none runs.
    #[must_use]
    pub fn made(&self) -> PathBuf {
        self.cache().join("made")
    }

    /// `attempts/<sweep>/<trial>/<kind>/<number>`
    #[must_use]
    pub fn attempt(&self, id: &AttemptId) -> AttemptFolder {
        let job = self.attempts().join(id.job.sweep.as_str());
        let job = job
            .join(id.job.trial.to_string())
            .join(id.job.kind.as_str());
        AttemptFolder::new(job.join(id.number.to_string()))
    }

    /// What the jobs of one trial share on this host: `work/<sweep>/<trial>`.
    #[must_use]
    pub fn work(&self, id: &AttemptId) -> PathBuf {
        let sweep = self.path.join("work").join(id.job.sweep.as_str());
        sweep.join(id.job.trial.to_string())
    }

    /// How the names of its attempts' control groups begin: unlike those of every other agent of this machine.
    #[must_use]
    pub fn group_name(&self) -> String {
        let digest = Sha256::digest(self.path.as_os_str().as_encoded_bytes());
        let word: String = digest[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("sweep-{word}-")
    }

    /// Every attempt that has a folder, in order.
    #[must_use]
    pub fn list(&self) -> Vec<(AttemptId, AttemptFolder)> {
        let mut found = Vec::new();
        for sweep in names(&self.attempts()) {
            for trial in names(&self.attempts().join(&sweep)) {
                let trial_path = self.attempts().join(&sweep).join(&trial);
                for kind in names(&trial_path) {
                    for number in names(&trial_path.join(&kind)) {
                        let id = format!("{sweep}/{trial}/{kind}/{number}");
                        if let Ok(id) = id.parse::<AttemptId>() {
                            let folder = self.attempt(&id);
                            found.push((id, folder));
                        }
                    }
                }
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_agent_is_refused_and_the_next_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let first = AgentFolder::take(folder.path()).unwrap();
        let second = AgentFolder::take(folder.path()).err().unwrap();
        assert!(second.to_string().contains("another agent works on it"));
        drop(first);
        assert!(AgentFolder::take(folder.path()).is_ok());
    }

    #[test]
    fn attempts_are_found_by_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (agent, _lock) = AgentFolder::take(folder.path()).unwrap();
        let id: AttemptId = "a-b.c/12/train/3".parse().unwrap();
        fs::create_dir_all(agent.attempt(&id).path()).unwrap();
        fs::create_dir_all(agent.attempts().join("a/x/train/1")).unwrap();
        let found: Vec<_> = agent.list().into_iter().map(|(id, _)| id).collect();
        assert_eq!(found, [id]);
    }
}
