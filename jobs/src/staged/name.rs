//! What a file that travels may be called: `name`, `folder/name`, and nothing that means something else somewhere.
//! The same on every system, so that a sweep that was packed on one can be laid out on any other.
//!
//! Refuses `..`, absolute paths, drives, backslashes, control characters, Windows' devices, and names that differ only
//! in case.

use std::collections::BTreeMap;

use thiserror::Error;

/// Of a whole name, in bytes: a host's own folders come before it, and some systems take 260 in all.
const LONGEST: usize = 150;

/// A file of this name is a device on Windows, whatever comes after its first point.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"];

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadName {
    #[error("a file's name is empty")]
    Empty,
    #[error("`{0}` is an absolute path")]
    Absolute(String),
    #[error("`{0}` leaves its folder")]
    Leaves(String),
    #[error("`{0}` has a backslash; folders are separated by /")]
    Backslash(String),
    #[error("`{0}` has an empty part, or one that is only a point")]
    EmptyPart(String),
    #[error("`{name}` has {wrong:?}, which not every system allows")]
    Character { name: String, wrong: char },
    #[error("`{0}` has a part that ends in a point or in a space, which Windows drops")]
    Ending(String),
    #[error("`{0}` is the name of a device on Windows")]
    Device(String),
    #[error("a file's name has {0} bytes; it has at most {LONGEST}")]
    Long(usize),
}

/// Is this a name that means the same file on every host, inside its folder?
pub fn check_name(name: &str) -> Result<(), BadName> {
    let shown = || name.escape_debug().to_string();
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.len() > LONGEST {
        return Err(BadName::Long(name.len()));
    }
    if name.contains('\\') {
        return Err(BadName::Backslash(shown()));
    }
    if name.starts_with('/') || name.chars().nth(1) == Some(':') {
        return Err(BadName::Absolute(shown()));
    }
    if let Some(wrong) = name.chars().find(|c| is_wrong(*c)) {
        return Err(BadName::Character {
            name: shown(),
            wrong,
        });
    }
    for part in name.split('/') {
        check_part(part, &shown)?;
    }
    Ok(())
}

fn check_part(part: &str, shown: &impl Fn() -> String) -> Result<(), BadName> {
    if part == ".." {
        return Err(BadName::Leaves(shown()));
    }
    if part.is_empty() || part == "." {
        return Err(BadName::EmptyPart(shown()));
    }
    if part.ends_with(['.', ' ']) || part.starts_with(' ') {
        return Err(BadName::Ending(shown()));
    }
    let before_point = part.split('.').next().unwrap_or(part).trim_end();
    if is_device(&before_point.to_lowercase()) {
        return Err(BadName::Device(shown()));
    }
    Ok(())
}

fn is_device(stem: &str) -> bool {
    let numbered = |port: &str| {
        let number = stem.strip_prefix(port);
        // Windows takes the raised digits for the plain ones.
        number.is_some_and(|number| {
            let mut digits = number.chars();
            matches!(
                (digits.next(), digits.next()),
                (Some('0'..='9' | '¹' | '²' | '³'), None)
            )
        })
    };
    DEVICES.contains(&stem) || numbered("com") || numbered("lpt")
}

/// Control characters and what Windows forbids; braces, which are placeholders; and characters that are not seen, or
/// that show the others in another order.
fn is_wrong(c: char) -> bool {
    c.is_control()
        || "<>:\"|?*{}".contains(c)
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Two names that cannot lie in one folder everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Clash {
    #[error("`{0}` is listed twice")]
    Twice(String),
    #[error("`{0}` and `{1}` differ only in case, and are one name on Windows")]
    Case(String, String),
    #[error("`{0}` would be a file and the folder of `{1}`")]
    FileAndFolder(String, String),
}

/// Names that lie in one folder, as they come.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// As a file system without case has it -> as it was written, and whether it is a file.
    known: BTreeMap<String, (String, bool)>,
}

impl Names {
    /// Adds a name that [`check_name`] took.
    pub fn add(&mut self, name: &str) -> Result<(), Clash> {
        let folders = name.match_indices('/').map(|(at, _)| (&name[..at], false));
        for (path, is_file) in folders.chain([(name, true)]) {
            self.add_path(path, is_file, name)?;
        }
        Ok(())
    }

    fn add_path(&mut self, path: &str, is_file: bool, name: &str) -> Result<(), Clash> {
        let Some((known, was_file)) = self.known.get(&folded(path)) else {
            self.known.insert(folded(path), (path.to_owned(), is_file));
            return Ok(());
        };
        let known = known.clone();
        match (was_file, is_file) {
            _ if known != path => Err(Clash::Case(known, path.to_owned())),
            (false, false) => Ok(()),
            (true, true) => Err(Clash::Twice(known)),
            (true, false) => Err(Clash::FileAndFolder(known, name.to_owned())),
            (false, true) => {
                let inside = self.known.range(folded(path) + "/"..).next();
                let inside = inside.map_or_else(String::new, |(_, (inside, _))| inside.clone());
                Err(Clash::FileAndFolder(known, inside))
            }
        }
    }
}

/// Upper case first: letters that share only their upper case are one to Windows.
fn folded(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_taken() {
        for name in [
            "a.py",
            "cases/held out.jsonl",
            "a/b/c",
            ".hidden",
            "a..b",
            "console.py",
            "com10",
            "fälle.jsonl",
            "x+y=z,(1)@#.txt",
            "common/nulls.py",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a/..",
            "..",
            "./a",
            "a//b",
            "a/",
            ".",
            "C:a",
            "c:/a",
            "a\\b",
            "\\\\host\\a",
            "a\0b",
            "a\nb",
            "a:stream",
            "nul",
            "NUL.txt",
            "a/Com1",
            "lpt¹.x",
            "con .x",
            "a.",
            "a ",
            " a",
            "a./b",
            "{x}",
            "a?",
            "a\u{202e}b",
            "aux/x.py",
            "CONIN$",
        ] {
            assert!(check_name(name).is_err(), "{name:?} was taken");
        }
        assert!(check_name(&"a".repeat(LONGEST + 1)).is_err());
    }

    fn all(names: &[&str]) -> Result<(), Clash> {
        let mut known = Names::default();
        names.iter().try_for_each(|name| known.add(name))
    }

    #[test]
    fn names_that_cannot_lie_together_are_refused() {
        assert_eq!(all(&["a/x", "a/y", "b", "a.x"]), Ok(()));
        assert_eq!(all(&["a", "a"]), Err(Clash::Twice("a".into())));
        assert_eq!(all(&["a", "A"]), Err(Clash::Case("a".into(), "A".into())));
        assert_eq!(
            all(&["a/x", "A/y"]),
            Err(Clash::Case("a".into(), "A".into()))
        );
        assert_eq!(all(&["ſ", "S"]), Err(Clash::Case("ſ".into(), "S".into())));
        let both = Err(Clash::FileAndFolder("a".into(), "a/x".into()));
        assert_eq!(all(&["a", "a/x"]), both);
        assert_eq!(all(&["a/x", "a"]), both);
    }
}
