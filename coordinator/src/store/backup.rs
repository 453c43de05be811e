//! A backup is a folder: `records` (every record as key and value, then their number and SHA-256), `blobs/`, `files/`,
//! and `attempts/` if logs are wanted. It does not depend on the engine, so any later program can read it.
//!
//! Refuses to write over anything, and to restore from a backup that is not whole.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::bulk::{self, Bulk};
use super::pairs::{Pair, PairIter, Pairs};
use super::{Blobs, Files, StoreError, blobs, disk, folder, version};

const MAGIC: &[u8; 16] = b"sweep-backup-1\r\n";
/// In the place of a key's length: the end of the records.
const END: u32 = u32::MAX;
const LONGEST: u32 = 16 * 1024 * 1024;

/// What a backup holds beside the records and blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Logs and reports of all attempts.
    pub logs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    pub records: u64,
    pub blobs: u64,
    /// That travel with sweeps.
    pub files: u64,
    pub log_files: u64,
}

pub fn backup(
    kept: &impl Pairs,
    data: &Path,
    blobs: &Blobs,
    to: &Path,
    what: Backup,
) -> Result<BackupReport, StoreError> {
    refuse_used("back up to", to)?;
    // Under another name until it is whole, so half a backup is never taken for one.
    let part = beside(to, ".part");
    disk::remove_folder(&part)?;
    disk::make_folder(&part)?;
    let records = write_records(kept, &part.join("records"))?;
    let digests = blobs.list()?;
    let copies = Blobs::open(&part)?;
    for digest in &digests {
        copies.put(&blobs.get(digest)?)?;
    }
    let files = Files::open(data)?.copy_to(&part)?;
    let mut log_files = 0;
    if what.logs {
        log_files = copy_folder(&folder::attempts(data), &folder::attempts(&part))?;
    }
    put_in_place(&part, to)?;
    Ok(BackupReport {
        records,
        blobs: digests.len() as u64,
        files,
        log_files,
    })
}

/// Makes a data folder from a backup.
pub fn restore(from: &Path, to: &Path) -> Result<BackupReport, StoreError> {
    let source = Records::open(from)?;
    refuse_used("restore to", to)?;
    let part = beside(to, ".part");
    disk::remove_folder(&part)?;
    disk::make_folder(&part)?;
    let store = folder::store(&part);
    version::check(&source)?;
    let mut bulk = Bulk::new(&store)?;
    for pair in source.stream()? {
        bulk.add(pair?, &source)?;
    }
    let records = bulk.finish()?;
    let blobs = copy_blobs(from, &part)?;
    // A backup of an older version has none.
    let files = Files::open(from)?.copy_to(&part)?;
    let log_files = copy_folder(&folder::attempts(from), &folder::attempts(&part))?;
    put_in_place(&part, to)?;
    Ok(BackupReport {
        records,
        blobs,
        files,
        log_files,
    })
}

fn copy_blobs(from: &Path, to: &Path) -> Result<u64, StoreError> {
    let target = Blobs::open(to)?;
    let mut count = 0;
    for path in disk::entries(&from.join("blobs"))? {
        let bytes = fs::read(&path).map_err(|error| StoreError::io("read", &path, error))?;
        if !path.ends_with(blobs::digest(&bytes)) {
            return Err(StoreError::corrupt(
                &path,
                "its content does not have the SHA-256 of its name",
            ));
        }
        target.put(&bytes)?;
        count += 1;
    }
    Ok(count)
}

fn write_records(kept: &impl Pairs, path: &Path) -> Result<u64, StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let file = File::create_new(path).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8], out: &mut BufWriter<File>| {
        hash.update(bytes);
        out.write_all(bytes).map_err(failed)
    };
    put(MAGIC, &mut out)?;
    let mut count = 0_u64;
    for pair in bulk::records(kept) {
        let (key, value) = pair?;
        for part in [&key, &value] {
            put(
                &u32::try_from(part.len()).unwrap_or(END).to_le_bytes(),
                &mut out,
            )?;
            put(part, &mut out)?;
        }
        count += 1;
    }
    put(&END.to_le_bytes(), &mut out)?;
    put(&count.to_le_bytes(), &mut out)?;
    out.write_all(&hash.finalize()).map_err(failed)?;
    let file = out
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(count)
}

/// The records of a backup, checked to be whole before anything is read from them.
struct Records {
    path: PathBuf,
}

impl Records {
    fn open(backup: &Path) -> Result<Self, StoreError> {
        let path = backup.join("records");
        if !path.is_file() {
            return Err(StoreError::Missing {
                doing: "restore",
                path: backup.to_path_buf(),
                what: "backup",
            });
        }
        let records = Self { path };
        records.check_whole()?;
        Ok(records)
    }

    fn check_whole(&self) -> Result<(), StoreError> {
        let mut file = self.file()?;
        let length = file
            .get_ref()
            .metadata()
            .map_err(|error| self.failed(error))?
            .len();
        let cut = || StoreError::corrupt(&self.path, "cut short");
        let mut left = length.checked_sub(32).ok_or_else(cut)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        while left > 0 {
            let some = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut buffer[..some])
                .map_err(|error| self.failed(error))?;
            hash.update(&buffer[..some]);
            left -= some as u64;
        }
        let mut expected = [0; 32];
        file.read_exact(&mut expected)
            .map_err(|error| self.failed(error))?;
        if hash.finalize()[..] != expected {
            return Err(StoreError::corrupt(
                &self.path,
                "its SHA-256 is not the one at its end",
            ));
        }
        Ok(())
    }

    fn stream(&self) -> Result<impl Iterator<Item = Result<Pair, StoreError>>, StoreError> {
        let mut file = self.file()?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)
            .map_err(|error| self.failed(error))?;
        if magic != *MAGIC {
            return Err(StoreError::corrupt(
                &self.path,
                "not a backup that this program knows",
            ));
        }
        Ok(std::iter::from_fn(move || self.next(&mut file).transpose()))
    }

    fn next(&self, file: &mut impl Read) -> Result<Option<Pair>, StoreError> {
        let length = self.length(file)?;
        if length == END {
            return Ok(None);
        }
        let key = self.bytes(file, length)?;
        let length = self.length(file)?;
        Ok(Some((key, self.bytes(file, length)?)))
    }

    fn length(&self, file: &mut impl Read) -> Result<u32, StoreError> {
        let mut length = [0; 4];
        file.read_exact(&mut length)
            .map_err(|error| self.failed(error))?;
        Ok(u32::from_le_bytes(length))
    }

    fn bytes(&self, file: &mut impl Read, length: u32) -> Result<Vec<u8>, StoreError> {
        if length > LONGEST {
            return Err(StoreError::corrupt(
                &self.path,
                "a record of impossible length",
            ));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact(&mut bytes)
            .map_err(|error| self.failed(error))?;
        Ok(bytes)
    }

    fn file(&self) -> Result<BufReader<File>, StoreError> {
        let file = File::open(&self.path).map_err(|error| self.failed(error))?;
        Ok(BufReader::with_capacity(1 << 20, file))
    }

    fn failed(&self, error: std::io::Error) -> StoreError {
        StoreError::io("read", &self.path, error)
    }
}

/// Only for the version's sake: the meta record is the first of all.
impl Pairs for Records {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let first = self.stream()?.next().transpose()?;
        Ok(first
            .filter(|(found, _)| found == key)
            .map(|(_, value)| value))
    }

    fn range(&self, _: &[u8], _: &[u8]) -> PairIter<'_> {
        match self.stream() {
            Ok(stream) => Box::new(stream),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn place(&self) -> &Path {
        &self.path
    }
}

fn refuse_used(doing: &'static str, folder: &Path) -> Result<(), StoreError> {
    if folder.is_file() || !disk::entries(folder)?.is_empty() {
        return Err(StoreError::NotEmpty {
            doing,
            folder: folder.to_path_buf(),
        });
    }
    Ok(())
}

fn put_in_place(part: &Path, to: &Path) -> Result<(), StoreError> {
    if to.is_dir() {
        // Empty, as was checked; a folder is not renamed over another everywhere.
        fs::remove_dir(to).map_err(|error| StoreError::io("replace", to, error))?;
    }
    disk::sync_folder(part)?;
    disk::rename(part, to)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    // Without a trailing separator, so that it is beside and not inside.
    let mut name: std::ffi::OsString = path.components().collect::<PathBuf>().into();
    name.push(ending);
    name.into()
}

/// Copies what is below a folder, durably. Returns the number of files.
fn copy_folder(from: &Path, to: &Path) -> Result<u64, StoreError> {
    let entries = disk::entries(from)?;
    if entries.is_empty() {
        return Ok(0);
    }
    let mut count = 0;
    fs::create_dir_all(to).map_err(|error| StoreError::io("make the folder", to, error))?;
    for path in entries {
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        if path.is_dir() {
            count += copy_folder(&path, &target)?;
        } else {
            let copied = fs::copy(&path, &target).and_then(|_| File::open(&target)?.sync_all());
            copied.map_err(|error| StoreError::io("copy to", &target, error))?;
            count += 1;
        }
    }
    disk::sync_folder(to)?;
    Ok(count)
}
