//! The Windows side: what the standard library can do. Starting attempts needs Job Objects and comes with the
//! Windows host; until then each such call says so, and a simulated or real Windows host runs no attempt here.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command};
use std::time::Duration;

use vram::Backend;

use crate::attempt::{Contained, Limits, Process};
use crate::os::{Exit, Woken};

fn unsupported<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("{what} is not supported on Windows yet"),
    ))
}

/// The profile of a user is private already.
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

#[must_use]
pub fn boot() -> String {
    String::new()
}

#[must_use]
pub fn free_space(_path: &Path) -> Option<u64> {
    None
}

#[must_use]
pub fn memory_limit() -> Option<u64> {
    None
}

#[must_use]
pub fn oom_kills() -> Option<u64> {
    None
}

/// Who may read a file is its access list's business.
#[must_use]
pub fn everybody_may_read(_path: &Path) -> bool {
    false
}

/// Rights are lists there, which only an attempt would tell.
pub fn may_write(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
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

#[must_use]
pub fn gpu_pin(_backend: Backend, _id: &str) -> Option<String> {
    None
}

pub fn end_leftovers(_shepherd: Option<Process>, _mark: &str) -> (usize, usize) {
    (0, 0)
}

/// Another process's environment is not to be had here.
pub fn has_variable(_pid: u32, _start: &str) -> Option<bool> {
    None
}

pub fn is_in_group(_pid: u32, _begin: &str) -> bool {
    false
}

pub fn program_of(_pid: u32) -> Option<String> {
    None
}

/// Cannot exist yet.
pub struct Guard(Infallible);

impl Guard {
    pub fn start(_program: &Path, _folder: &Path) -> io::Result<Self> {
        unsupported("starting an attempt")
    }

    pub fn adopt(_shepherd: Process) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub async fn ended(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn wake(&self) {
        match self.0 {}
    }

    pub fn last_words(self) -> String {
        match self.0 {}
    }
}

/// Nothing holds an attempt yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Group {}

impl Group {
    pub fn contained(&self) -> Option<Contained> {
        None
    }

    pub fn kill(&self) -> bool {
        true
    }

    pub fn end(&self) -> usize {
        0
    }
}

#[derive(Clone, Debug, Default)]
pub struct Grounds {}

impl Grounds {
    pub fn take() -> Self {
        Self {}
    }

    pub fn look() -> Self {
        Self {}
    }

    pub fn group(&self, _name: &str) -> Group {
        Group {}
    }

    pub fn unenforced(&self, limits: &Limits) -> Option<String> {
        (!limits.is_none()).then(|| "[limits] are not enforced on Windows yet".to_owned())
    }

    pub fn named(&self, _begin: &str) -> Vec<(String, Group)> {
        Vec::new()
    }
}

/// Cannot exist yet.
pub struct Reins(Infallible);

/// Cannot exist yet.
pub struct Program(Infallible);

impl Reins {
    pub fn take() -> io::Result<Self> {
        unsupported("the shepherd of an attempt")
    }

    #[must_use]
    pub fn own(&self) -> Process {
        match self.0 {}
    }

    pub fn start(&self, _command: &mut Command) -> io::Result<Program> {
        match self.0 {}
    }

    pub fn hold(&mut self, _limits: &Limits, _group: &Group) -> Option<String> {
        match self.0 {}
    }

    pub fn contained(&self) -> Option<Contained> {
        match self.0 {}
    }

    pub fn is_over_memory(&self) -> bool {
        match self.0 {}
    }

    pub fn let_go(&mut self) -> usize {
        match self.0 {}
    }

    pub fn wait(&mut self, _program: &Program, _longest: Duration) -> Woken {
        match self.0 {}
    }

    pub fn look(&self, _program: &Program) -> u64 {
        match self.0 {}
    }

    #[must_use]
    pub fn left_something(&self) -> bool {
        match self.0 {}
    }

    pub fn ask_rest(&self) {
        match self.0 {}
    }

    pub fn wait_rest(&self, _longest: Duration) -> bool {
        match self.0 {}
    }

    pub fn kill_rest(&self, _mark: &str) -> usize {
        match self.0 {}
    }

    #[must_use]
    pub fn count_rest(&self) -> usize {
        match self.0 {}
    }

    #[must_use]
    pub fn children_peak(&self) -> Option<u64> {
        match self.0 {}
    }
}

impl Program {
    #[must_use]
    pub fn process(&self) -> Process {
        match self.0 {}
    }

    pub fn ask(&self) {
        match self.0 {}
    }

    pub fn kill(&self) {
        match self.0 {}
    }

    pub fn exit(&mut self) -> io::Result<Exit> {
        match self.0 {}
    }
}

/// Cannot exist yet.
pub struct Lowly(Infallible);

impl Lowly {
    pub fn start(_command: &mut Command, _largest_file: u64) -> io::Result<Self> {
        unsupported("a rehearsal")
    }

    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        match self.0 {}
    }

    #[must_use]
    pub fn resident(&self) -> u64 {
        match self.0 {}
    }

    #[must_use]
    pub fn peak(&self) -> u64 {
        match self.0 {}
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self.0 {}
    }

    pub fn end(self) -> io::Result<Exit> {
        match self.0 {}
    }
}
