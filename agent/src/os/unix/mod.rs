//! The Unix side, which today means Linux: /proc, pidfd, process groups, a child subreaper, cgroups.
//! `guard` is the agent's hold on a shepherd, `reins` the shepherd's hold on its program,
//! `lowly` the agent's hold on a rehearsal, `groups` what an attempt is held in.

mod access;
mod groups;
mod guard;
mod idle;
mod lowly;
mod memory;
mod pin;
mod processes;
mod reins;

use std::fs;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub use access::{device_files, everybody_may_read, is_root_on_anothers, may_write};
pub use groups::{Grounds, Group, is_in_group};
pub use guard::Guard;
pub use idle::idle;
pub use lowly::Lowly;
pub use memory::{memory_limit, oom_kills};
pub use pin::gpu_pin;
pub use processes::{end_leftovers, has_variable, program_of};
pub use reins::{Program, Reins};

/// The variable that shows a program of ROCm its cards. Only this one: masks that act on top of each other hide the
/// wrong card.
pub const ROCM_MASK: &str = "ROCR_VISIBLE_DEVICES";

/// Names of variables are what they are, letter by letter.
#[must_use]
pub fn same_variable(one: &str, other: &str) -> bool {
    one == other
}

/// Without links and dots.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// A session of services that sees less than a user's is Windows' own.
#[must_use]
pub fn is_services_session() -> bool {
    false
}

/// It and all that it starts can be ended together: [`end_group`].
pub fn own_group(command: &mut tokio::process::Command) {
    command.process_group(0);
}

/// Ends a command of its own group, and what it started.
pub fn end_group(leader: u32) {
    processes::kill_group(leader, rustix::process::Signal::KILL);
}

/// A folder that only its owner can look into; parents too, where they are missing.
pub fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// A file that only its owner can read, whole or not at all, and durable but for its name.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// May anybody but its owner read it?
pub fn others_may_read(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Tells one boot of the machine from another.
#[must_use]
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

/// Bytes that can still be written where `path` is.
#[must_use]
pub fn free_space(path: &Path) -> Option<u64> {
    let figures = rustix::fs::statvfs(path).ok()?;
    Some(figures.f_bavail.saturating_mul(figures.f_frsize))
}
