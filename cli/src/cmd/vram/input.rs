//! Files that the memory model reads, whole and within a size: a longer one is refused before it fills the memory.
//! Says nothing of what is in them.

use std::io::{self, Read};
use std::path::Path;

use crate::error::Error;

/// Some hundred thousand rows.
const LARGEST_TABLE: u64 = 256 << 20;

/// At most `most` bytes; `what` says what the file should have been.
pub fn bytes(path: &Path, most: u64, what: &str) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let read = up_to(file, most).map_err(unreadable)?;
    read.ok_or_else(|| too_large(&path.display().to_string(), most, what))
}

/// A table of JSON lines; `-` is standard input.
pub fn table(path: &Path) -> Result<String, Error> {
    let (name, most, what) = (name(path), LARGEST_TABLE, "a table of measured steps");
    let bytes = if path == Path::new("-") {
        let read = up_to(io::stdin().lock(), most);
        let read = read.map_err(|source| Error::Unreadable {
            path: name.clone().into(),
            source,
        })?;
        read.ok_or_else(|| too_large(&name, most, what))?
    } else {
        bytes(path, most, what)?
    };
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::BadInput(format!("{name}:{line}: not text (UTF-8)"))
    })
}

/// How messages call it.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".to_owned();
    }
    path.display().to_string()
}

/// Nothing where there is more: a pipe or a device may have no end.
fn up_to(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

fn too_large(name: &str, most: u64, what: &str) -> Error {
    Error::BadInput(format!(
        "{name} is too large: {what} has at most {} MiB",
        most >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused() {
        let read = |text: &'static [u8]| up_to(text, 3).unwrap();
        assert_eq!(read(b"abc"), Some(b"abc".to_vec()));
        assert_eq!(read(b"abcd"), None);
        let error = bytes(Path::new("/dev/zero"), 1 << 20, "a file").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/dev/zero is too large: a file has at most 1 MiB"
        );
    }

    #[test]
    fn a_table_that_is_no_text_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, b"{}\n{}\n\xff").unwrap();
        let error = table(&path).unwrap_err().to_string();
        assert!(error.ends_with("rows.jsonl:3: not text (UTF-8)"), "{error}");
    }
}
