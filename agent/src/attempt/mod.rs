//! Attempts on this host: from an order to an acknowledged ending.
//!
//! `command` makes the order, `shepherd` carries it out in a process of its own, `watch` follows it and reports,
//! `ending` says what it came to, `keeper` knows which attempts there are.

pub mod command;
pub mod ending;
pub mod facts;
mod folder;
mod keeper;
mod launch;
pub mod limits;
pub mod oom;
pub mod order;
mod own_words;
pub mod report;
pub mod shepherd;
mod state;
mod tail;
mod watch;
mod wording;

pub use folder::AttemptFolder;
pub use keeper::{Attempts, Setting};
pub use limits::{Contained, Limits};
pub use state::{Process, State};
pub use watch::Note;
