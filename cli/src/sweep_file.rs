//! A sweep file on this disk: read, checked with the coordinator's own parser, and packed with the files it names.
//! Nothing leaves this machine unless the whole file is right.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use jobs::Plan;
use jobs::spec::NamedFile;
use jobs::staged::Bundle;
use proto::v1::SweepFile;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::kit;
use crate::staging::{self, Source};

/// Larger files are a mistake, and nothing would carry them.
const LARGEST: u64 = 16 << 20;

/// A file that was accepted.
#[derive(Debug)]
pub struct Loaded {
    pub plan: Plan,
    pub file: SweepFile,
    /// SHA-256 of the bytes, in hex: by it an unfinished sweep of the same file is found again.
    pub digest: String,
    /// The files that it names.
    pub sources: Vec<Source>,
    /// Names where a file may stand, and none is there: they reach the program as they are.
    pub words: Vec<String>,
}

impl Loaded {
    /// All that travels with it: the kit, too, where its programs use one and there is one here.
    pub fn travelling(&self, path: &Path) -> Result<Vec<Source>, Error> {
        let mut all = self.sources.clone();
        if self.plan.spec.uses_kit()
            && let Some(folder) = kit::find(Some(path))?
        {
            all.extend(staging::kit(&folder)?);
        }
        Ok(all)
    }
}

pub fn load(path: &Path) -> Result<Loaded, Error> {
    let name = path.to_string_lossy().into_owned();
    let bytes = read(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut sources: Vec<Source> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let look = |file: &NamedFile| {
        if !file.required && !folder.join(&file.name).is_file() {
            words.push(file.name.clone());
            return Ok(());
        }
        let before = sources.iter().map(|source| source.size).sum();
        sources.push(staging::look(Bundle::Files, folder, &file.name, before)?);
        Ok(())
    };
    let plan = jobs::plan::load_with(&name, &bytes, look).map_err(Error::Spec)?;
    let mut attachments = BTreeMap::new();
    for named in plan.spec.attachments() {
        let content = read(&folder.join(&named))?;
        attachments.insert(named, content);
    }
    Ok(Loaded {
        digest: digest(&bytes),
        sources,
        words,
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
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in bytes {
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
