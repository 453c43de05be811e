//! The list of a sweep's files: which bundle each belongs to, its name there, its content by SHA-256. A bundle becomes
//! one folder on a host, named by the digest of all that is in it.
//!
//! Refuses a list in which any one thing is wrong, whoever it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{BadName, Clash, LARGEST_FILE, LARGEST_SWEEP, MOST_FILES, Names, check_name};

/// Which folder a file lies in on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bundle {
    /// What `{kit}` stands for.
    Kit,
    /// What `{file:NAME}` names.
    Files,
}

impl Bundle {
    pub const ALL: [Self; 2] = [Self::Kit, Self::Files];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kit => "kit",
            Self::Files => "files",
        }
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Bundle {
    type Err = BadManifest;
    fn from_str(text: &str) -> Result<Self, BadManifest> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| BadManifest::Bundle(text.escape_debug().to_string()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StagedFile {
    pub bundle: Bundle,
    pub name: String,
    /// In hex.
    pub sha256: String,
    pub size: u64,
    pub executable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadManifest {
    #[error("`{0}` is no bundle of files: it is `kit` or `files`")]
    Bundle(String),
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("in the bundle `{bundle}`, {clash}")]
    Clash { bundle: Bundle, clash: Clash },
    #[error("the file `{0}` has no SHA-256 in 64 small hexadecimal digits")]
    Digest(String),
    #[error(
        "one content has two sizes: the file `{0}` is of another size where it is listed again"
    )]
    Sizes(String),
    #[error(
        "the file `{0}` has {1} bytes; a file that travels with a sweep has at most {LARGEST_FILE}, and larger data is \
         a resource of a host ([datasets] or [models] of its file)"
    )]
    Large(String, u64),
    #[error(
        "the files have {0} bytes in all; those of one sweep have at most {LARGEST_SWEEP}, and larger data is a \
         resource of a host ([datasets] or [models] of its file)"
    )]
    LargeInAll(u64),
    #[error("there are {0} files; a sweep has at most {MOST_FILES}")]
    Many(usize),
}

/// A list that was checked, in one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    files: Vec<StagedFile>,
}

impl Manifest {
    pub fn new(mut files: Vec<StagedFile>) -> Result<Self, BadManifest> {
        if files.len() > MOST_FILES {
            return Err(BadManifest::Many(files.len()));
        }
        let mut names: BTreeMap<Bundle, Names> = BTreeMap::new();
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        let mut all = 0_u64;
        for file in &files {
            check_name(&file.name)?;
            let known = names.entry(file.bundle).or_default();
            known.add(&file.name).map_err(|clash| BadManifest::Clash {
                bundle: file.bundle,
                clash,
            })?;
            if !is_digest(&file.sha256) {
                return Err(BadManifest::Digest(file.name.clone()));
            }
            if file.size > LARGEST_FILE {
                return Err(BadManifest::Large(file.name.clone(), file.size));
            }
            if *sizes.entry(&file.sha256).or_insert(file.size) != file.size {
                return Err(BadManifest::Sizes(file.name.clone()));
            }
            all += file.size;
        }
        if all > LARGEST_SWEEP {
            return Err(BadManifest::LargeInAll(all));
        }
        files.sort();
        Ok(Self { files })
    }

    #[must_use]
    pub fn files(&self) -> &[StagedFile] {
        &self.files
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn of(&self, bundle: Bundle) -> impl Iterator<Item = &StagedFile> {
        self.files.iter().filter(move |file| file.bundle == bundle)
    }

    /// What the bundle's folder is called: SHA-256 in hex of all that decides its content. `None` of an empty one.
    #[must_use]
    pub fn digest(&self, bundle: Bundle) -> Option<String> {
        let mut hash = Sha256::new();
        let mut any = false;
        for file in self.of(bundle) {
            let mode = if file.executable { "x" } else { "-" };
            // A name has no line end, so no two lists give the same text.
            hash.update(format!("{mode} {} {}\n", file.sha256, file.name));
            any = true;
        }
        any.then(|| {
            let bytes = hash.finalize();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        })
    }
}

/// SHA-256 as file names and records have it.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bundle: Bundle, name: &str, size: u64) -> StagedFile {
        let digit = char::from_digit((size % 10) as u32, 16).unwrap();
        StagedFile {
            bundle,
            name: name.into(),
            sha256: String::from(digit).repeat(64),
            size,
            executable: false,
        }
    }

    fn of(files: &[(Bundle, &str, u64)]) -> Result<Manifest, BadManifest> {
        let files = files
            .iter()
            .map(|(bundle, name, size)| file(*bundle, name, *size));
        Manifest::new(files.collect())
    }

    #[test]
    fn a_digest_is_of_names_contents_and_modes_in_any_order() {
        use Bundle::{Files, Kit};
        let one = of(&[(Files, "a", 1), (Files, "b", 2), (Kit, "a", 3)]).unwrap();
        let other = of(&[(Files, "b", 2), (Files, "a", 1)]).unwrap();
        assert_eq!(one.digest(Files), other.digest(Files));
        assert_ne!(one.digest(Files), one.digest(Kit));
        assert_eq!(other.digest(Kit), None);
        let mut changed = other.files().to_vec();
        changed[0].executable = true;
        let changed = Manifest::new(changed).unwrap();
        assert_ne!(changed.digest(Files), other.digest(Files));
    }

    #[test]
    fn one_wrong_file_spoils_the_list() {
        use Bundle::{Files, Kit};
        assert!(of(&[(Files, "a", 1), (Kit, "a", 1)]).is_ok());
        assert!(matches!(
            of(&[(Files, "../a", 1)]),
            Err(BadManifest::Name(_))
        ));
        let twice = of(&[(Files, "a", 1), (Files, "A", 2)]);
        assert!(matches!(twice, Err(BadManifest::Clash { .. })), "{twice:?}");
        assert!(matches!(
            of(&[(Files, "a", 1), (Files, "b", 11)]),
            Err(BadManifest::Sizes(_))
        ));
        assert!(matches!(
            of(&[(Files, "a", LARGEST_FILE + 1)]),
            Err(BadManifest::Large(..))
        ));
        let names = ["a", "b", "c", "d", "e"];
        let many: Vec<_> = names.map(|name| (Files, name, LARGEST_FILE)).into();
        assert!(matches!(of(&many), Err(BadManifest::LargeInAll(_))));
        let mut digest = file(Kit, "a", 1);
        digest.sha256 = "AA".repeat(32);
        assert!(matches!(
            Manifest::new(vec![digest]),
            Err(BadManifest::Digest(_))
        ));
        assert!("x".parse::<Bundle>().is_err());
    }
}
