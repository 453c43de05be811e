//! The sweep file as typed values: [`parse`] is the only way to get one, and what it returns is valid.
//! Says nothing about hosts; expansion into trials is `plan`'s.

mod types;

pub use types::*;
