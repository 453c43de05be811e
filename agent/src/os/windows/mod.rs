//! The Windows side: Job Objects, process handles, Ctrl-Break in consoles that nobody sees.
//! `guard` is the agent's hold on a shepherd, `reins` the shepherd's hold on its program, `lowly` the agent's hold on a
//! rehearsal; `job`, `processes` and `console` are the calls of Windows that they make.
//!
//! Shown under Wine. Wine takes the limits of memory and of processors and does not heed them.

mod console;
mod grounds;
mod guard;
mod idle;
mod job;
mod lowly;
mod processes;
mod reins;
mod session;
#[cfg(test)]
mod tests;
mod weight;

use std::fs;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vram::Backend;

pub use grounds::{Grounds, Group, is_in_group};
pub use guard::Guard;
pub use idle::idle;
pub use lowly::Lowly;
pub use processes::program_of;
pub use reins::{Program, Reins};
pub use session::is_services_session;

use crate::attempt::Process;

/// The variable that shows a program of ROCm its cards: HIP's, as the runtime below it is another one than on Linux.
pub const ROCM_MASK: &str = "HIP_VISIBLE_DEVICES";

/// Names of variables are the same in capitals and small letters.
#[must_use]
pub fn same_variable(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// As it stands, from its drive on. Windows' own canonical form (`\\?\C:\`) is what many programs cannot work in.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// The profile of a user is private already, and `agent install` sets the rights of the folder that it makes.
pub fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The folder's rights are the file's.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    fs::write(&beside, content)?;
    fs::File::options().write(true).open(&beside)?.sync_all()?;
    fs::rename(&beside, path)
}

/// Rights are lists there, which the standard library does not read.
pub fn others_may_read(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}

/// Processes are told apart by when they were started, by the clock: that tells boots apart too.
#[must_use]
pub fn boot() -> String {
    String::new()
}

#[must_use]
pub fn free_space(path: &Path) -> Option<u64> {
    fs4::available_space(path).ok()
}

/// Of this process: none is looked for.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    None
}

/// Windows ends nothing for want of memory: it refuses to give more, and each program says so itself.
#[must_use]
pub fn oom_kills() -> Option<u64> {
    None
}

/// Who may read a file is its access list's business.
#[must_use]
pub fn everybody_may_read(_path: &Path) -> bool {
    false
}

/// Whether this process may make files in a folder; nothing is made.
pub fn may_write(folder: &Path) -> io::Result<()> {
    const ADD_FILE: u32 = 2;
    // Without it a folder cannot be opened at all.
    const BACKUP_SEMANTICS: u32 = 0x0200_0000;
    let mut options = fs::OpenOptions::new();
    options.access_mode(ADD_FILE).custom_flags(BACKUP_SEMANTICS);
    options.open(folder).map(drop)
}

#[must_use]
pub fn is_root_on_anothers(_folder: &Path) -> bool {
    false
}

/// Devices are no files here.
#[must_use]
pub fn device_files(_backend: Backend) -> Vec<crate::os::DeviceFile> {
    Vec::new()
}

/// The word that pins a GPU: NVIDIA's is its UUID. HIP knows indices only: the place among AMD's adapters in the order
/// of DXGI, which nobody promises to be HIP's; `sweep agent doctor` says whether a program sees the right card.
#[must_use]
pub fn gpu_pin(backend: Backend, id: &str) -> Option<String> {
    match backend {
        Backend::Cuda => (id.starts_with("GPU-") || id.starts_with("MIG-")).then(|| id.to_owned()),
        Backend::Rocm => crate::devices::amd_index(id).map(|index| index.to_string()),
        Backend::Cpu => None,
    }
}

/// With its shepherd's handle gone the kernel has emptied its job: there is nothing to look for.
pub fn end_leftovers(_shepherd: Option<Process>, _mark: &str) -> (usize, usize) {
    (0, 0)
}

/// Another process's environment is not to be had here.
pub fn has_variable(_pid: u32, _start: &str) -> Option<bool> {
    None
}

/// There are no groups of processes that a command could be put into without a job of its own.
pub fn own_group(_command: &mut tokio::process::Command) {}

/// See [`own_group`]: the command itself is ended by whoever started it.
pub fn end_group(_leader: u32) {}
