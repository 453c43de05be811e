//! What a shepherd saw of an attempt, and nothing else: `ending.json`. What it means is decided by `ending`, so a
//! newer agent can understand an old attempt better.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Contained;

/// Why an attempt was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    TimeLimit,
    Cancelled,
    /// Given up by the coordinator.
    Fenced,
    /// To be continued later.
    Suspended,
    /// The device that it runs on is gone or broken.
    DeviceFault,
    /// Somebody sent the shepherd a SIGTERM: the machine goes down, or a person did it.
    Terminated,
    /// The shepherd was killed; the agent ended what was left.
    ShepherdLost,
}

impl Why {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TimeLimit => "time_limit",
            Self::Cancelled => "cancelled",
            Self::Fenced => "fenced",
            Self::Suspended => "suspended",
            Self::DeviceFault => "device_fault",
            Self::Terminated => "terminated",
            Self::ShepherdLost => "shepherd_lost",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Why {
    type Err = ();
    /// The content of a `stop` file; only reasons that somebody may ask for.
    fn from_str(text: &str) -> Result<Self, ()> {
        [
            Self::Cancelled,
            Self::Fenced,
            Self::Suspended,
            Self::DeviceFault,
        ]
        .into_iter()
        .find(|why| why.as_str() == text.trim())
        .ok_or(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Unix milliseconds by the host's clock.
    pub started_ms: u64,
    pub ended_ms: u64,
    /// By the monotonic clock.
    pub ran_ms: u64,
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub why: Option<Why>,
    /// It did not end within its grace and was killed.
    pub killed: bool,
    /// Processes that it left behind and that were ended after it.
    pub left: u32,
    /// Resident memory of the whole process tree.
    pub peak_resident: Option<u64>,
    /// What its control group counted.
    pub contained: Option<Contained>,
    /// The kernel killed something for want of memory while it ran.
    pub oom_kill: bool,
    /// It never ran: what was wrong.
    pub not_started: Option<String>,
    /// It never ran, because its files could not be brought here: why not.
    pub not_staged: Option<String>,
    /// It never ran, because a device did not become free: what keeps it.
    pub held_back: Option<String>,
    /// What could not be written, or not be ended.
    pub trouble: Vec<String>,
}

impl Facts {
    /// Something of it ran.
    #[must_use]
    pub fn ran(&self) -> bool {
        [&self.not_started, &self.not_staged, &self.held_back]
            .into_iter()
            .all(Option::is_none)
    }

    /// It never ran, for want of its files.
    #[must_use]
    pub fn not_staged(what: impl Into<String>, now_ms: u64) -> Self {
        Self {
            started_ms: now_ms,
            ended_ms: now_ms,
            not_staged: Some(what.into()),
            ..Self::default()
        }
    }

    /// It never ran, and is to wait.
    #[must_use]
    pub fn held_back(what: impl Into<String>, now_ms: u64) -> Self {
        Self {
            started_ms: now_ms,
            ended_ms: now_ms,
            held_back: Some(what.into()),
            ..Self::default()
        }
    }

    /// It never ran.
    #[must_use]
    pub fn not_started(what: impl Into<String>, now_ms: u64) -> Self {
        Self {
            started_ms: now_ms,
            ended_ms: now_ms,
            not_started: Some(what.into()),
            ..Self::default()
        }
    }
}
