//! A disk of a few MiB (a tmpfs) to fill up or to make read-only. Needs the right to mount: where that is missing there is none, and the
//! test says that it is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounted at `path`; absent where this process may not mount.
    #[must_use]
    pub fn mount(path: &Path, mib: u32) -> Option<Self> {
        fs::create_dir_all(path).expect("a folder to mount at");
        let size = format!("size={mib}m,mode=700");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "sweep-test"])
            .arg(path);
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self {
                path: path.to_owned(),
            }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                println!("SKIPPED: no small disk to fill: {why}");
                None
            }
            Err(error) => {
                println!("SKIPPED: no small disk to fill: mount: {error}");
                None
            }
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file over all that is free.
    pub fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(self.filler())
            .expect("a file");
        // Small pieces at the end, so that not even a short line has room.
        for size in [64 << 10, 4 << 10, 256, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Takes that file away again.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("the disk was filled before");
    }

    /// Nothing can be written there any more.
    pub fn make_read_only(&self) {
        let status = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.path)
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "cannot make {} read-only",
            self.path.display()
        );
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process of the test may still be ending on it.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}
