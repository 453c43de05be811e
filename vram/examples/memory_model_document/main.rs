//! Writes the figures of docs/memory-model.md, and its drawing, from the data that this crate ships. With `--check` it
//! writes nothing and fails where the document is not what it would write. It changes only what stands between a pair
//! of markers; the words around them are people's.

mod figures;

use std::path::Path;
use std::process::ExitCode;

use figures::document::{difference, filled};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/memory-model.md");
const DRAWING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/memory-model.svg");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = match arguments.as_slice() {
        [] => false,
        [only] if only == "--check" => true,
        _ => {
            eprintln!("usage: memory_model_document [--check]");
            return ExitCode::from(2);
        }
    };
    match write(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("failed to write the memory model's document: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write(check: bool) -> Result<(), String> {
    let document = read(DOCUMENT)?;
    let computed = figures::compute()?;
    let wanted = filled(&document, &computed.sections)?;
    for (path, wanted) in [(DOCUMENT, wanted), (DRAWING, computed.drawing)] {
        let written = if check || Path::new(path).exists() {
            read(path)?
        } else {
            String::new()
        };
        match (difference(&written, &wanted), check) {
            (Some(difference), true) => {
                return Err(format!("{path} is not up to date: {difference}"));
            }
            (Some(_), false) => save(path, &wanted)?,
            (None, _) => {}
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure; this program is one of its callers"
)]
fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure; this program is one of its callers"
)]
fn save(path: &str, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("write {path}: {error}"))
}
