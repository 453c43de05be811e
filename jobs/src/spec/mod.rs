//! The sweep file as typed values: [`parse`] is the only way to get one, and what it returns is valid.
//! Says nothing about hosts; expansion into trials is `plan`'s.

mod axes;
mod error;
mod file;
mod head;
mod names;
mod nearest;
mod place;
mod placeholder;
mod program;
mod range;
mod reader;
mod setting;
mod settings;
mod stage;
mod syntax;
mod types;
mod units;
mod value;
mod when;

pub use error::{SpecError, SpecErrors};
pub use file::parse;
pub(crate) use file::{Marks, as_text, parse_marked};
pub use nearest::help as nearest_help;
pub(crate) use placeholder::{Piece, escape, pieces};
pub(crate) use reader::{Reader, one_error};
pub use settings::setting_names;
pub(crate) use stage::MAY_BE_FILES;
pub use types::*;
pub(crate) use value::{canonical, same};
