//! The way from a file's bytes to a plan, on the user's machine and again on the coordinator.
//! Gives what only expansion finds wrong its place in the file.

use super::Plan;
use super::expand::{At, ExpandError, expand};
use crate::spec::{Marks, SpecErrors, as_text, one_error, parse_marked};

/// [`crate::spec::parse`] and [`expand`], with every error at its place in the file.
pub fn load(file_name: &str, text: &[u8]) -> Result<Plan, SpecErrors> {
    let text = as_text(file_name, text)?;
    let (spec, marks) = parse_marked(file_name, text)?;
    expand(spec).map_err(|error| placed(file_name, text, &marks, error))
}

fn placed(file_name: &str, text: &str, marks: &Marks, error: ExpandError) -> SpecErrors {
    let span = match error.at {
        At::Axes => None,
        At::Random => marks.random.as_ref(),
        At::Cell(number) => marks.cells.get(number),
        At::When(number) => marks.whens.get(number),
    };
    let span = span.unwrap_or(&marks.axes).clone();
    one_error(file_name, text, span, error.message, error.help)
}
