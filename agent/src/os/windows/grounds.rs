//! Where attempts are held: nowhere beforehand. Each shepherd makes the Job Object of its attempt and has the only handle,
//! so there is nothing that an agent could find, and nothing that could be left.

use serde::{Deserialize, Serialize};

use crate::attempt::{Contained, Limits};

/// Nothing needs to be kept of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {}

impl Group {
    /// Who could tell has ended.
    #[must_use]
    pub fn contained(&self) -> Option<Contained> {
        None
    }

    /// The kernel has done it, with the last handle.
    pub fn kill(&self) -> bool {
        true
    }

    #[must_use]
    pub fn end(&self) -> usize {
        0
    }
}

#[derive(Clone, Debug, Default)]
pub struct Grounds {}

impl Grounds {
    #[must_use]
    pub fn take() -> Self {
        Self {}
    }

    #[must_use]
    pub fn look() -> Self {
        Self {}
    }

    #[must_use]
    pub fn group(&self, _name: &str) -> Group {
        Group {}
    }

    /// Any process may limit a job that it makes.
    #[must_use]
    pub fn unenforced(&self, _limits: &Limits) -> Option<String> {
        None
    }

    #[must_use]
    pub fn named(&self, _begin: &str) -> Vec<(String, Group)> {
        Vec::new()
    }
}

/// Whose job a process is in only its shepherd knows.
pub fn is_in_group(_pid: u32, _begin: &str) -> bool {
    false
}
