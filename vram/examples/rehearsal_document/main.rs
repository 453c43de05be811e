//! Writes the figures of docs/rehearsal.md from what `sweep vram evaluate --rehearse --json` said of each table
//! (vram/data/rehearsed). With `--check` it writes nothing and fails where the document is not what it would write;
//! with `--tables FOLDER` it writes the tables that are shipped in another form. `docs/rehearsal` does all of it.

#[allow(dead_code, reason = "the other document shows the rest")]
#[path = "../memory_model_document/figures/document.rs"]
mod document;
mod sections;
mod tables;

use std::path::Path;
use std::process::ExitCode;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rehearsal.md");

const SAID: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/rehearsed");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] => write(false),
        ["--check"] => write(true),
        ["--tables", folder] => write_tables(Path::new(folder)),
        _ => {
            eprintln!("usage: rehearsal_document [--check | --tables FOLDER]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("failed to write the rehearsal's document: {message}");
            ExitCode::FAILURE
        }
    }
}

fn write(check: bool) -> Result<(), String> {
    let written = read(Path::new(DOCUMENT))?;
    let wanted = document::filled(&written, &sections::all(said_of)?)?;
    match (document::difference(&written, &wanted), check) {
        (Some(difference), true) => Err(format!("{DOCUMENT} is not up to date: {difference}")),
        (Some(_), false) => save(Path::new(DOCUMENT), &wanted),
        (None, _) => Ok(()),
    }
}

fn said_of(table: &str) -> Option<String> {
    read(&Path::new(SAID).join(format!("{table}.json"))).ok()
}

fn write_tables(folder: &Path) -> Result<(), String> {
    tables::all()?
        .iter()
        .try_for_each(|(name, text)| save(&folder.join(format!("{name}.jsonl")), text))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure; this program is one of its callers"
)]
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure; this program is one of its callers"
)]
fn save(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))
}
