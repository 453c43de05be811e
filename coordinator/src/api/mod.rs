//! The way in: one file for each verb. Handlers check what arrived, ask the engine, and render; they change nothing.

mod agents;
mod ask;
mod files;
mod history;
mod hosts;
mod logs;
mod own;
mod plan;
mod recorded;
mod status;
mod submit;
mod trust;
mod vram;
mod watch;
mod why;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::engine::EngineHandle;
use crate::live::Live;
use crate::store::{AttemptFiles, Files, Reader};
use crate::trust::Trust;

/// What every handler may use.
#[derive(Clone)]
pub struct Api {
    pub engine: EngineHandle,
    pub reader: Arc<dyn Reader>,
    pub live: Arc<Live>,
    pub files: Arc<Mutex<AttemptFiles>>,
    /// What travels with sweeps.
    pub staged: Files,
    pub data: PathBuf,
    /// Absent without TLS: then only this machine reaches the coordinator.
    pub trust: Option<Arc<Trust>>,
}
