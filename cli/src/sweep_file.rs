//! A sweep file on this disk: read, checked with the coordinator's own parser, and packed with the files it names.
//! Nothing leaves this machine unless the whole file is right.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use jobs::Plan;
use proto::v1::SweepFile;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Larger files are a mistake, and nothing would carry them.
const LARGEST: u64 = 16 << 20;

/// A file that was accepted.
#[derive(Debug)]
pub struct Loaded {
    pub plan: Plan,
    pub file: SweepFile,
    /// SHA-256 of the bytes, in hex: by it an unfinished sweep of the same file is found again.
    pub digest: String,
}

pub fn load(path: &Path) -> Result<Loaded, Error> {
    let name = path.to_string_lossy().into_owned();
    let bytes = read(path)?;
    let plan = jobs::plan::load(&name, &bytes).map_err(Error::Spec)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut attachments = BTreeMap::new();
    for named in plan.spec.attachments() {
        let content = read(&folder.join(&named))?;
        attachments.insert(named, content);
    }
    Ok(Loaded {
        digest: digest(&bytes),
        plan,
        file: SweepFile {
            name,
            toml: bytes,
            attachments,
        },
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Unreadable {
        path: path.to_owned(),
        source,
    };
    let facts = std::fs::metadata(path).map_err(unreadable)?;
    if facts.len() > LARGEST {
        return Err(Error::BadInput(format!(
            "{} has {} bytes; a sweep file or what it names has at most {LARGEST}",
            path.display(),
            facts.len()
        )));
    }
    std::fs::read(path).map_err(unreadable)
}

fn digest(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        assert_eq!(
            digest(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = load(Path::new("/no/such.toml")).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("/no/such.toml"), "{error}");
        assert!(matches!(error, Error::Unreadable { .. }));
    }
}
