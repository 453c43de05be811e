//! The harness of the whole-system tests: the real binary, real processes, real kills. Each test has a [`Room`] of its
//! own (folder, ports, processes), so tests run beside each other, and leaving the room ends everything in it, also
//! when the test panics. Waits by looking again until a deadline, never by sleeping and hoping.
//! Knows the command line and its documents only: no crate of the project is linked here.

#![cfg(unix)]

mod binary;
pub mod cards;
mod control_groups;
mod document;
mod host;
mod net;
mod processes;
mod proxy;
mod random;
mod room;
mod said;
mod server;
mod small_disk;
mod wait;
mod wrong_clock;

pub use binary::{project, sweep_binary};
pub use control_groups::{groups_of, may_limit};
pub use document::{all_succeeded, attempts, job, jobs, text};
pub use host::Host;
pub use net::Net;
pub use processes::{attempt_processes, freeze, kill9, living, shepherd_of, terminate, thaw};
pub use proxy::Proxy;
pub use random::Random;
pub use room::Room;
pub use said::Said;
pub use server::{Agent, Coordinator};
pub use small_disk::SmallDisk;
pub use wait::{SOON, until, until_some};
pub use wrong_clock::WrongClock;
