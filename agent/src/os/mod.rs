//! Everything that differs between operating systems, behind one interface: processes and their trees, memory
//! figures, private folders, how a GPU is pinned. The two sides have the same names; nothing outside asks which it is.
//! Decides nothing: what to end and when is the shepherd's and the agent's business.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

/// A file through which programs reach a device.
pub struct DeviceFile {
    pub path: std::path::PathBuf,
    /// Why this process cannot open it for reading and writing.
    pub trouble: Option<std::io::Error>,
}

/// How long nobody has touched this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Nobody is logged in.
    Nobody,
    Since(std::time::Duration),
    /// Why this system does not tell.
    Unknown(String),
}

/// What a shepherd's wait ended with.
#[cfg_attr(windows, allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The program ended.
    Ended,
    /// Somebody asked the shepherd to look (SIGTERM).
    Asked,
    /// Nothing happened in the given time.
    Time,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}
