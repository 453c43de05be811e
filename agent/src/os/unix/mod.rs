//! The Unix side, which today means Linux: /proc, pidfd, process groups, a child subreaper, cgroups.
//! `guard` is the agent's hold on a shepherd, `reins` the shepherd's hold on its program,
//! `lowly` the agent's hold on a rehearsal.

mod guard;
mod lowly;
mod memory;
mod pin;
mod processes;
mod reins;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub use guard::Guard;
pub use lowly::Lowly;
pub use memory::{memory_limit, oom_kills};
pub use pin::gpu_pin;
pub use processes::{end_leftovers, has_variable, program_of};
pub use reins::{Program, Reins};

/// A folder that only its owner can look into; parents too, where they are missing.
pub fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
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
