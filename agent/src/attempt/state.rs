//! Which processes an attempt consists of while it runs, so that an agent that did not start them finds them.
//! A process id alone is worthless after a while: the start time and the boot tell whether it is still the same one.

use serde::{Deserialize, Serialize};

/// A process, told apart from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Of this boot of the machine.
    pub boot: String,
    pub shepherd: Process,
    /// The program; its id is also that of its process group. Absent until it runs.
    pub program: Option<Process>,
    /// Unix milliseconds.
    pub started_ms: u64,
}
