//! Logs and reports of attempts: files that only grow, under `attempts/<sweep>/<trial>/<kind>/<number>/`.
//!
//! Refuses a gap: bytes come at the offset where the file ends. Bytes that are there already are passed over, so
//! sending again after a broken connection is harmless.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jobs::AttemptId;

use super::{StoreError, disk, folder};

/// Logs stop growing before the disk is so full that endings could not be committed.
const RESERVE_BYTES: u64 = 32 * 1024 * 1024;
const OPEN_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Standard output and error.
    Log,
    /// The JSON lines of `$SWEEP_REPORT`.
    Report,
}

impl Channel {
    const ALL: [Self; 2] = [Self::Log, Self::Report];

    fn file_name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Report => "report.jsonl",
        }
    }
}

/// The one writer of these files; keeps the ones in use open.
#[derive(Debug)]
pub struct AttemptFiles {
    data: PathBuf,
    open: HashMap<PathBuf, Grown>,
    /// Folders that have gained an entry since they were synced.
    folders: BTreeSet<PathBuf>,
    turn: u64,
}

#[derive(Debug)]
struct Grown {
    file: File,
    size: u64,
    dirty: bool,
    used: u64,
}

impl AttemptFiles {
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_path_buf(),
            open: HashMap::new(),
            folders: BTreeSet::new(),
            turn: 0,
        }
    }

    /// Appends what is new of `bytes`, which begin at `offset`. Returns the size afterwards; durable after
    /// [`AttemptFiles::sync`].
    pub fn append(
        &mut self,
        attempt: &AttemptId,
        channel: Channel,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, StoreError> {
        let path = path_of(&self.data, attempt, channel)?;
        let have = self.grown(&path)?.size;
        if offset > have {
            return Err(StoreError::Gap { path, offset, have });
        }
        let known = usize::try_from(have - offset).unwrap_or(usize::MAX);
        let fresh = bytes.get(known..).unwrap_or_default();
        if fresh.is_empty() {
            return Ok(have);
        }
        let free = disk::free_bytes(&self.data);
        if free < RESERVE_BYTES + fresh.len() as u64 {
            return Err(StoreError::DiskFull {
                doing: "append to",
                path,
                free,
            });
        }
        let grown = self.grown(&path)?;
        grown.dirty = true;
        match grown.write(fresh) {
            Ok(()) => Ok(grown.size),
            Err(error) => {
                // Part of it may have been written: the size is read anew with the next append.
                self.open.remove(&path);
                Err(StoreError::io("append to", &path, error))
            }
        }
    }

    /// Makes all that was appended to an attempt durable: before its ending is committed.
    pub fn sync(&mut self, attempt: &AttemptId) -> Result<(), StoreError> {
        for channel in Channel::ALL {
            let path = path_of(&self.data, attempt, channel)?;
            if let Some(grown) = self.open.get_mut(&path) {
                grown.sync(&path)?;
            }
        }
        let folder = folder_of(&self.data, attempt)?;
        let due: Vec<PathBuf> = self
            .folders
            .iter()
            .filter(|it| folder.starts_with(it))
            .cloned()
            .collect();
        for folder in due {
            disk::sync_folder(&folder)?;
            self.folders.remove(&folder);
        }
        Ok(())
    }

    /// Bytes written so far; 0 when there is no file yet.
    pub fn size(&self, attempt: &AttemptId, channel: Channel) -> Result<u64, StoreError> {
        log_size(&self.data, attempt, channel)
    }

    /// Closes the files of an attempt that will not grow any more.
    pub fn close(&mut self, attempt: &AttemptId) -> Result<(), StoreError> {
        self.sync(attempt)?;
        for channel in Channel::ALL {
            self.open.remove(&path_of(&self.data, attempt, channel)?);
        }
        Ok(())
    }

    fn grown(&mut self, path: &Path) -> Result<&mut Grown, StoreError> {
        self.turn += 1;
        if !self.open.contains_key(path) {
            self.make_room()?;
            let grown = self.open_file(path)?;
            self.open.insert(path.to_path_buf(), grown);
        }
        let turn = self.turn;
        // It was there or has just been put in: the entry is never vacant.
        let grown = self
            .open
            .get_mut(path)
            .ok_or_else(|| StoreError::corrupt(path, "not open"))?;
        grown.used = turn;
        Ok(grown)
    }

    fn open_file(&mut self, path: &Path) -> Result<Grown, StoreError> {
        let failed = |error| StoreError::io("open", path, error);
        if !path.exists() {
            self.make_folders(path)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed)?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Grown {
            file,
            size,
            dirty: false,
            used: 0,
        })
    }

    /// The folders above a new file. They are synced together, with the attempt.
    fn make_folders(&mut self, path: &Path) -> Result<(), StoreError> {
        let Some(folder) = path.parent() else {
            return Ok(());
        };
        fs::create_dir_all(folder)
            .map_err(|error| StoreError::io("make the folder", folder, error))?;
        let ours = folder
            .ancestors()
            .take_while(|it| it.starts_with(&self.data));
        self.folders.extend(ours.map(Path::to_path_buf));
        Ok(())
    }

    /// Closes the file that was used longest ago, once too many are open.
    fn make_room(&mut self) -> Result<(), StoreError> {
        while self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().min_by_key(|(_, grown)| grown.used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else {
                break;
            };
            if let Some(grown) = self.open.get_mut(&path) {
                grown.sync(&path)?;
            }
            self.open.remove(&path);
        }
        Ok(())
    }
}

impl Grown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.size))?;
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self, path: &Path) -> Result<(), StoreError> {
        if self.dirty {
            self.file
                .sync_data()
                .map_err(|error| StoreError::io("sync", path, error))?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// Up to `limit` bytes from `offset` on; empty at the end and when there is no file. For any thread.
pub fn read_log(
    data: &Path,
    attempt: &AttemptId,
    channel: Channel,
    offset: u64,
    limit: usize,
) -> Result<Vec<u8>, StoreError> {
    let path = path_of(data, attempt, channel)?;
    let failed = |error| StoreError::io("read", &path, error);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    file.take(limit as u64)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Bytes in the file; 0 when there is none. For any thread.
pub fn log_size(data: &Path, attempt: &AttemptId, channel: Channel) -> Result<u64, StoreError> {
    let path = path_of(data, attempt, channel)?;
    match fs::metadata(&path) {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(StoreError::io("read", &path, error)),
    }
}

fn path_of(data: &Path, attempt: &AttemptId, channel: Channel) -> Result<PathBuf, StoreError> {
    Ok(folder_of(data, attempt)?.join(channel.file_name()))
}

fn folder_of(data: &Path, attempt: &AttemptId) -> Result<PathBuf, StoreError> {
    let sweep = attempt.job.sweep.as_str();
    // Ids come over the network and become folders: `..` is a valid one by its letters.
    if sweep.starts_with('.') {
        return Err(StoreError::refused(
            format!("the log of {attempt}"),
            "its sweep's id begins with a dot",
        ));
    }
    Ok(folder::attempts(data)
        .join(sweep)
        .join(attempt.job.trial.to_string())
        .join(attempt.job.kind.as_str())
        .join(attempt.number.to_string()))
}
