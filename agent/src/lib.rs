//! The agent of one host: registers its devices, starts attempts under shepherds, reports what they leave on disk.
//! Decides nothing about placement, and owns no attempt: attempts outlive it.

mod attempt;
pub mod clock;
pub mod config;
pub mod devices;
pub mod doctor;
mod durable;
mod evict;
pub mod fleet;
mod folder;
mod os;
mod owner;
mod recording;
mod rehearsal;
mod retention;
mod run;
mod session;
pub mod simulate;
pub mod size;
mod spool;
mod staging;
pub mod trust;

pub use attempt::shepherd::shepherd;
pub use folder::FolderError;
pub use run::{AgentError, AgentOptions, Leave, run};
pub use session::SessionError;
pub use spool::SpoolError;
