//! The way from a file's bytes to a plan, on the user's machine and again on the coordinator.
//! Gives what only expansion finds wrong its place in the file.

use super::Plan;
use super::expand::{At, ExpandError, expand};
use crate::spec::{Marks, NamedFile, Reader, SpecErrors, as_text, one_error, parse_marked};

/// [`crate::spec::parse`] and [`expand`], with every error at its place in the file.
pub fn load(file_name: &str, text: &[u8]) -> Result<Plan, SpecErrors> {
    load_with(file_name, text, |_| Ok(()))
}

/// What is wrong with a file, and what helps.
pub type WrongFile = (String, String);

/// [`load`] for whoever has the files that the text names: `look` is asked for each of them.
pub fn load_with(
    file_name: &str,
    text: &[u8],
    mut look: impl FnMut(&NamedFile) -> Result<(), WrongFile>,
) -> Result<Plan, SpecErrors> {
    let text = as_text(file_name, text)?;
    let (spec, marks) = parse_marked(file_name, text)?;
    let mut reader = Reader::new(file_name, text);
    for (file, span) in &marks.files {
        if let Err((message, help)) = look(file) {
            reader.error_help(span.clone(), message, help);
        }
    }
    reader.finish()?;
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
