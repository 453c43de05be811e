//! The files that travel with a sweep, on their way out: found beside the sweep file and in the kit, then handed to a
//! coordinator by content. What they may be called and how large they may be is `jobs::staged`'s to say.

mod pack;
mod send;

pub use pack::{Source, kit, look};
pub use send::Packed;
