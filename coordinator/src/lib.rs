//! Keeps the sweeps, decides what runs where, and answers about both.
//!
//! `engine` is the one writer of state; `schedule` decides and does nothing; `advice` says what would fit; `store` keeps;
//! `api` is the way in; `trust` says who may; `documents` is what people read. [`start`] puts them together.

mod advice;
mod api;
mod clock;
mod documents;
mod engine;
mod live;
mod running;
pub mod schedule;
pub mod store;
pub mod trust;

pub use running::{Options, Pulse, Running, StartError, start};
