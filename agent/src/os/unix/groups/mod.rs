//! Control groups: one for each attempt, in version 2, version 1 or both, whichever has the controllers here.
//! `hierarchy` reads what is mounted, `choice` decides where groups may be made, `grounds` does it, `group` is the
//! hold on one attempt. Asks no service manager, and where it has no rights it says so and takes none.

mod choice;
mod grounds;
mod group;
mod hierarchy;

pub use grounds::Grounds;
pub use group::Group;

use serde::{Deserialize, Serialize};

/// What a group can be limited in. The word is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
}

impl Controller {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }

    /// The key under `[limits]`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu_weight",
            Self::Pids => "processes",
        }
    }

    fn of(text: &str) -> Vec<Self> {
        let words: Vec<&str> = text.split([',', ' ', '\n']).collect();
        let named = |one: &Self| words.contains(&one.word());
        Self::ALL.into_iter().filter(named).collect()
    }
}

/// Whether a process is in a group whose name begins so.
#[must_use]
pub fn is_in_group(pid: u32, begin: &str) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups
        .lines()
        .any(|line| line.split('/').any(|name| name.starts_with(begin)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    V1,
    V2,
}
