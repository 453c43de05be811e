//! How attempts and jobs end. One word each, the same word in the store, in JSON and on the screen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use vram::Bytes;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),* }
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),* } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result { out.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = UnknownOutcome;
            fn from_str(text: &str) -> Result<Self, UnknownOutcome> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text).ok_or_else(|| UnknownOutcome(text.to_owned()))
            }
        }
    };
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not an outcome")]
pub struct UnknownOutcome(pub String);

words! {
    /// How one attempt ended.
    AttemptOutcome {
        Succeeded = "succeeded",
        /// The framework ran out of device memory.
        GpuOom = "gpu_oom",
        /// Went on in system memory, several times slower.
        Spilled = "spilled",
        /// The attempt's own limit of host memory.
        HostOom = "host_oom",
        /// Xid, illegal memory access, a card gone from the bus.
        GpuFault = "gpu_fault",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        /// Any other ending of the program's own making.
        Failed = "failed",
        /// No word from the agent for the grace time.
        HostLost = "host_lost",
        /// Ended from outside through no fault of its own: its shepherd or its host died under it, or it asked to be
        /// started again (exit 75).
        Interrupted = "interrupted",
        /// Its user stopped the whole run for now, or its host held it back before it ran: it goes on later, and no
        /// retry is spent on that.
        Suspended = "suspended",
    }
}

words! {
    /// How a job ended, exactly one of them.
    Outcome {
        Succeeded = "succeeded",
        GpuOom = "gpu_oom",
        Spilled = "spilled",
        HostOom = "host_oom",
        GpuFault = "gpu_fault",
        TimedOut = "timed_out",
        Cancelled = "cancelled",
        Failed = "failed",
        HostLost = "host_lost",
        Interrupted = "interrupted",
        /// Too large for every known host; never started, or started and proven so.
        Infeasible = "infeasible",
        /// Not needed (a probe whose answer is known), or what it follows did not succeed.
        Skipped = "skipped",
    }
}

impl From<AttemptOutcome> for Outcome {
    fn from(outcome: AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Succeeded => Self::Succeeded,
            AttemptOutcome::GpuOom => Self::GpuOom,
            AttemptOutcome::Spilled => Self::Spilled,
            AttemptOutcome::HostOom => Self::HostOom,
            AttemptOutcome::GpuFault => Self::GpuFault,
            AttemptOutcome::TimedOut => Self::TimedOut,
            AttemptOutcome::Cancelled => Self::Cancelled,
            AttemptOutcome::Failed => Self::Failed,
            AttemptOutcome::HostLost => Self::HostLost,
            // No job settles as suspended: it is simply open again.
            AttemptOutcome::Interrupted | AttemptOutcome::Suspended => Self::Interrupted,
        }
    }
}

impl AttemptOutcome {
    /// Too little memory on that device: the next attempt needs another device, not another try.
    #[must_use]
    pub fn is_too_large(self) -> bool {
        matches!(self, Self::GpuOom | Self::Spilled)
    }
}

/// Everything known of an attempt's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub outcome: AttemptOutcome,
    /// Exit code; absent when a signal ended it or it never started.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    /// What is known, in a sentence or two.
    pub detail: String,
    /// Milliseconds from start to end by a monotonic clock.
    pub ran_ms: u64,
    /// The host's own clock, Unix milliseconds: evidence, never compared with ours.
    pub host_ended_ms: u64,
    pub peaks: Peaks,
    /// Newest value of each metric, a JSON object.
    pub metrics: serde_json::Map<String, serde_json::Value>,
    /// What the program gave as its result.
    pub result: Option<serde_json::Value>,
    pub step_seconds: Option<f64>,
    /// The program's own memory observation, as it gave it.
    pub observation: Option<serde_json::Value>,
}

impl Ending {
    /// An ending that says nothing but its outcome and why.
    #[must_use]
    pub fn bare(outcome: AttemptOutcome, detail: impl Into<String>) -> Self {
        Self {
            outcome,
            exit: None,
            signal: None,
            detail: detail.into(),
            ran_ms: 0,
            host_ended_ms: 0,
            peaks: Peaks::default(),
            metrics: serde_json::Map::new(),
            result: None,
            step_seconds: None,
            observation: None,
        }
    }
}

/// Measured peaks of one attempt; absent is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// By the framework's allocator; for a CPU device the peak resident memory of the process tree.
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub resident: Option<Bytes>,
}
