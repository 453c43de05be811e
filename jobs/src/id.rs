//! Names of things: sweep, trial, job, attempt. Each contains its parent, so an id alone says where it belongs.
//!
//! `dropout-ab-k3f9q2` / `.../3` / `.../3/train` / `.../3/train/1`. Trials and attempts count from 1.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::Kind;

/// The sweep's name and six characters of its submission: readable, and unique within a coordinator.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SweepId(Arc<str>);

impl SweepId {
    /// The same submission always gets the same id, so a repeated submission is recognised.
    #[must_use]
    pub fn new(name: &str, submission: &str) -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnopqrstuvwxyz2345679";
        let hash = Sha256::digest(submission.as_bytes());
        let tail: String = hash[..6]
            .iter()
            .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
            .collect();
        Self(format!("{name}-{tail}").into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn trial(&self, index: u32) -> TrialId {
        TrialId {
            sweep: self.clone(),
            index,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialId {
    pub sweep: SweepId,
    pub index: u32,
}

impl TrialId {
    #[must_use]
    pub fn job(&self, kind: Kind) -> JobId {
        JobId {
            sweep: self.sweep.clone(),
            trial: self.index,
            kind,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    pub sweep: SweepId,
    pub trial: u32,
    pub kind: Kind,
}

impl JobId {
    #[must_use]
    pub fn attempt(&self, number: u32) -> AttemptId {
        AttemptId {
            job: self.clone(),
            number,
        }
    }

    #[must_use]
    pub fn trial(&self) -> TrialId {
        self.sweep.trial(self.trial)
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub job: JobId,
    pub number: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct BadId {
    text: String,
    expected: &'static str,
}

fn bad(text: &str, expected: &'static str) -> BadId {
    BadId {
        text: text.to_owned(),
        expected,
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| *n > 0)
}

impl FromStr for SweepId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        if text.is_empty() || !text.chars().all(is_name_char) {
            return Err(bad(text, "a sweep's id or name (letters, digits, - _ .)"));
        }
        Ok(Self(text.into()))
    }
}

/// What a sweep's name may consist of; the ids are folder names too.
#[must_use]
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Folders are called by it, so dots alone are none.
#[must_use]
pub fn is_host_name(text: &str) -> bool {
    text.chars().all(is_name_char) && text.chars().any(|c| c != '.')
}

impl FromStr for TrialId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parsed = text
            .split_once('/')
            .and_then(|(sweep, index)| Some((sweep.parse().ok()?, number(index)?)));
        let (sweep, index) = parsed.ok_or_else(|| bad(text, "a trial's id (sweep/3)"))?;
        Ok(Self { sweep, index })
    }
}

impl FromStr for JobId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parsed = text.rsplit_once('/').and_then(|(trial, kind)| {
            let trial: TrialId = trial.parse().ok()?;
            Some(trial.job(kind.parse().ok()?))
        });
        parsed.ok_or_else(|| bad(text, "a job's id (sweep/3/train)"))
    }
}

impl FromStr for AttemptId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parsed = text.rsplit_once('/').and_then(|(job, n)| {
            let job: JobId = job.parse().ok()?;
            Some(job.attempt(number(n)?))
        });
        parsed.ok_or_else(|| bad(text, "an attempt's id (sweep/3/train/1)"))
    }
}

impl fmt::Display for SweepId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
impl fmt::Display for TrialId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.sweep, self.index)
    }
}
impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.sweep, self.trial, self.kind)
    }
}
impl fmt::Display for AttemptId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.job, self.number)
    }
}

macro_rules! shown_as_text {
    ($($id:ty),*) => {$(
        impl fmt::Debug for $id {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }
    )*};
}
shown_as_text!(SweepId, TrialId, JobId, AttemptId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse_to_themselves() {
        let sweep = SweepId::new("dropout-ab", "0193-a");
        let attempt = sweep.trial(3).job(Kind::Train).attempt(2);
        assert_eq!(
            attempt.to_string().parse::<AttemptId>(),
            Ok(attempt.clone())
        );
        assert_eq!(attempt.job.to_string().parse::<JobId>(), Ok(attempt.job));
        assert!("a/0/train".parse::<JobId>().is_err());
        assert!("a/1/fly".parse::<JobId>().is_err());
        assert!("a b".parse::<SweepId>().is_err());
    }

    #[test]
    fn a_submission_has_one_id() {
        assert_eq!(SweepId::new("a", "s"), SweepId::new("a", "s"));
        assert_ne!(SweepId::new("a", "s"), SweepId::new("a", "t"));
    }
}
