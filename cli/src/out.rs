//! Everything that goes to stdout and the notes on stderr. A reader that has gone (`sweep list | head -1`) ends the
//! command quietly. Refuses to print more than the one document when JSON is asked for.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::harmless::{self, Harmless};

/// One document: as JSON, or as `text` makes it for people.
pub fn document<T: Serialize>(
    context: &Context,
    document: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Error> {
    if context.json {
        json(document)
    } else {
        print(&text(document))
    }
}

/// The one JSON document.
pub fn json<T: Serialize>(document: &T) -> Result<(), Error> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut stdout, document)
        .map_err(io::Error::from)
        .map_err(failed)?;
    stdout
        .write_all(b"\n")
        .and_then(|()| stdout.flush())
        .map_err(failed)
}

/// One JSON document on one line: what a server says when it is ready.
pub fn json_line(document: &serde_json::Value) -> Result<(), Error> {
    print(&document.to_string())
}

/// Text for people, ended by one newline. Colours are dropped where they are not wanted.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = anstream::stdout().lock();
    let text = match io::stdout().is_terminal() {
        true => Cow::Owned(harmless::text(text)),
        false => Cow::Borrowed(text),
    };
    stdout
        .write_all(text.trim_end_matches('\n').as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .map_err(failed)
}

/// A line beside the result, on stdout; dropped when only the result is wanted.
pub fn print_unless(quiet: bool, text: &str) -> Result<(), Error> {
    if quiet { Ok(()) } else { print(text) }
}

/// Bytes of a log: untouched, but on a terminal harmless.
pub fn bytes(log: &mut Harmless, data: &[u8]) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let shown = match stdout.is_terminal() {
        true => log.piece(data).into(),
        false => Cow::Borrowed(data),
    };
    stdout
        .write_all(&shown)
        .and_then(|()| stdout.flush())
        .map_err(failed)
}

/// A word beside the result, on stderr; not with `--quiet` or `--json`.
pub fn note(context: &Context, text: &str) {
    if !context.quiet {
        // A note that nobody can read is no reason to fail.
        let _ = writeln!(anstream::stderr().lock(), "{}", harmless::text(text));
    }
}

fn failed(source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::BrokenPipe {
        Error::Pipe
    } else {
        Error::io("write to", "standard output", source)
    }
}
