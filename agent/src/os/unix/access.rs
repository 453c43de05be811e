//! Who may read a file, and whether this process may use the driver's device files.
//! Opens device files for reading and writing, and sends nothing to them.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use vram::Backend;

use crate::os::DeviceFile;

/// Whether this process may make files in a folder; nothing is made.
pub fn may_write(folder: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    Ok(rustix::fs::access(
        folder,
        Access::WRITE_OK | Access::EXEC_OK,
    )?)
}

/// Root may do everything, and what it makes there is not the owner's.
#[must_use]
pub fn is_root_on_anothers(folder: &Path) -> bool {
    let owner = fs::metadata(folder).map_or(0, |about| about.uid());
    rustix::process::geteuid().is_root() && owner != 0
}

/// Beyond its owner and its group.
#[must_use]
pub fn everybody_may_read(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o004 != 0)
}

/// Those that a program needs to compute on a card, whether they are there or not.
#[must_use]
pub fn device_files(backend: Backend) -> Vec<DeviceFile> {
    device_files_in(Path::new("/dev"), backend)
}

fn device_files_in(dev: &Path, backend: Backend) -> Vec<DeviceFile> {
    let paths: Vec<PathBuf> = match backend {
        Backend::Cuda => ["nvidiactl", "nvidia-uvm"]
            .map(|name| dev.join(name))
            .into(),
        Backend::Rocm => {
            let nodes = named(&dev.join("dri"), "renderD");
            [vec![dev.join("kfd")], nodes].concat()
        }
        Backend::Cpu => Vec::new(),
    };
    let look = |path: PathBuf| {
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        DeviceFile {
            path,
            trouble: opened.err(),
        }
    };
    paths.into_iter().map(look).collect()
}

fn named(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(begin))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_loaded_is_missing_files() {
        let dev = tempfile::tempdir().unwrap();
        fs::create_dir(dev.path().join("dri")).unwrap();
        for name in ["kfd", "dri/renderD128", "dri/card0"] {
            fs::write(dev.path().join(name), "").unwrap();
        }
        let names = |backend| -> Vec<(String, bool)> {
            let all = device_files_in(dev.path(), backend).into_iter();
            all.map(|file| {
                let name = file.path.strip_prefix(dev.path()).unwrap();
                (name.display().to_string(), file.trouble.is_none())
            })
            .collect()
        };
        let of = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
            all.iter()
                .map(|(name, ok)| ((*name).to_owned(), *ok))
                .collect()
        };
        assert_eq!(
            names(Backend::Cuda),
            of(&[("nvidiactl", false), ("nvidia-uvm", false)])
        );
        assert_eq!(
            names(Backend::Rocm),
            of(&[("kfd", true), ("dri/renderD128", true)])
        );
    }

    #[test]
    fn a_file_for_everybody_is_told_from_a_private_one() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("token");
        fs::write(&path, "x").unwrap();
        for (mode, others) in [(0o644, true), (0o640, false), (0o600, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(everybody_may_read(&path), others, "{mode:o}");
        }
    }
}
