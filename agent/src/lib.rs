//! The agent of one host: registers its devices, starts attempts under shepherds, reports what they leave on disk.
//! Decides nothing about placement, and owns no attempt: attempts outlive it.

pub mod config;
mod os;
pub mod size;
