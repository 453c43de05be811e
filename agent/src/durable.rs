//! Files that are there whole or not at all.
//! Refuses to hide what the disk said: every error names the file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
#[error("could not {verb} {}: {}", path.display(), plain(source))]
pub struct DiskError {
    pub verb: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl DiskError {
    pub fn of(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { verb, path, source }
    }
}

/// `No space left on device`, without the number that Rust adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((what, _)) => what.to_owned(),
        None => text,
    }
}

/// Replaces a file in one step. A reader sees the old content or the new, also after a crash of this process; a
/// power loss may undo it.
pub fn replace(path: &Path, content: &[u8]) -> Result<File, DiskError> {
    let temporary = path.with_extension("new");
    let failed = |source| {
        let _ = fs::remove_file(&temporary);
        DiskError::of("write", path)(source)
    };
    let mut file = match File::create(&temporary) {
        Ok(file) => file,
        Err(error) => return Err(failed(error)),
    };
    let written = file.write_all(content);
    match written.and_then(|()| fs::rename(&temporary, path)) {
        Ok(()) => Ok(file),
        Err(error) => Err(failed(error)),
    }
}

/// [`replace`] that a power loss does not undo once it has returned.
pub fn replace_synced(path: &Path, content: &[u8]) -> Result<(), DiskError> {
    let file = replace(path, content)?;
    file.sync_all().map_err(DiskError::of("write", path))?;
    sync_folder_of(path)
}

/// Makes the name of a new file durable.
pub fn sync_folder_of(path: &Path) -> Result<(), DiskError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    // Only Unix opens a folder as a file; elsewhere the file system keeps names with the file.
    if cfg!(unix) {
        let opened = File::open(folder).and_then(|folder| folder.sync_all());
        opened.map_err(DiskError::of("write", folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_an_error_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace_synced(&path, b"one").unwrap();
        replace_synced(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = replace(&folder.path().join("no/b"), b"x").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("could not write ") && text.ends_with("No such file or directory"),
            "{text}"
        );
    }
}
