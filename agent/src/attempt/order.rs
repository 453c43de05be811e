//! What an attempt's shepherd is to do, complete: it asks nobody anything. Kept in the attempt's folder.
//! Holds no secret: their files are named, and the shepherd reads them when it starts the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Limits;
use crate::os::Group;

/// How long a program has between being asked to end and being killed.
pub const GRACE_MS: u64 = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub attempt: String,
    pub generation: u64,
    /// Nothing left to fill in. Empty when the attempt could not be made into a command.
    pub argv: Vec<String>,
    /// The program's whole environment, but for the two below.
    pub env: BTreeMap<String, String>,
    /// Names (or `NAME*`) that the program gets from the shepherd's own environment.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Variable -> file whose content it gets.
    #[serde(default)]
    pub secrets: BTreeMap<String, PathBuf>,
    /// Where the program starts: the folder that the jobs of the trial share.
    pub folder: PathBuf,
    /// 0: none.
    pub time_limit_ms: u64,
    pub grace_ms: u64,
    /// The peak that counts is resident memory: it runs on a real CPU device.
    #[serde(default)]
    pub resident_counts: bool,
    #[serde(default)]
    pub limits: Limits,
    /// What it is held in; its shepherd makes it.
    #[serde(default)]
    pub group: Group,
    /// Of the host, that it was given.
    #[serde(default)]
    pub devices: Vec<String>,
}
