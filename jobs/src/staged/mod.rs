//! Files that travel with a sweep: what they may be called, how large they may be, and what a list of them comes to.
//! The command line, the coordinator and the agents all ask here, so that none takes what another would refuse.
//!
//! Refuses names that could leave their folder, that Windows would read otherwise, or that two file systems would not
//! both keep apart. Reads no file.

mod manifest;
mod name;

pub use manifest::{BadManifest, Bundle, Manifest, StagedFile, is_digest};
pub use name::{BadName, Clash, Names, check_name};

/// What begins a placeholder that names a file.
pub(crate) const PREFIX: &str = "file:";

/// Larger files are data of a host.
pub const LARGEST_FILE: u64 = 64 << 20;

/// All files of one sweep together.
pub const LARGEST_SWEEP: u64 = 256 << 20;

/// Files of one sweep, the kit's among them.
pub const MOST_FILES: usize = 2000;

/// The name in a text that is nothing but `{file:NAME}`.
#[must_use]
pub fn reference(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let name = inside.strip_prefix(PREFIX)?;
    (!name.contains(['{', '}'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_the_whole_text() {
        assert_eq!(reference("{file:a/b.jsonl}"), Some("a/b.jsonl"));
        for text in [
            "{file:a} ",
            "{{file:a}}",
            "file:a",
            "{a}",
            "{file:a}{file:b}",
        ] {
            assert_eq!(reference(text), None, "{text}");
        }
    }
}
