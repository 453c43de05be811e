//! The wire (`sweep.v1`) and the store's records (`sweep.store.v1`), and their conversions to the nouns of `jobs`.
//! Nothing else: no decisions, no I/O.

pub mod convert;
pub mod json;
pub mod protocol;
pub mod said;
pub mod time;
pub mod token;

/// What travels between command line, coordinator and agents; the documents of `--json`.
#[allow(clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("gen/sweep.v1.rs");
}

/// What the store keeps.
pub mod store {
    #[allow(clippy::all, clippy::pedantic)]
    pub mod v1 {
        include!("gen/sweep.store.v1.rs");
    }
}

pub use protocol::PROTOCOL;
