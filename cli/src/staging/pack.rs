//! Which files travel: those that the sweep file names, each inside its own folder, and the programs of the kit. Looks at
//! them and opens none.
//!
//! Refuses links that lead out of the folder, and whatever is neither a file nor a folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jobs::plan::WrongFile;
use jobs::staged::{Bundle, LARGEST_FILE, LARGEST_SWEEP, MOST_FILES, check_name};

use crate::error::Error;

/// A file that is to travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub bundle: Bundle,
    pub name: String,
    /// Where it is, links followed.
    pub path: PathBuf,
    pub size: u64,
    pub executable: bool,
}

const BESIDE: &str = "larger data is a resource of a host: name it in [datasets] or [models] of the host's file, and \
                      write {dataset} or {model_path}";

/// One file of a folder, by a name that `jobs::staged` took. `before` is the size of those that travel already.
pub fn look(bundle: Bundle, folder: &Path, name: &str, before: u64) -> Result<Source, WrongFile> {
    let wrong = |message: String, help: &str| Err((message, help.to_owned()));
    let path = folder.join(name);
    let place = || format!("it is looked for at {}", path.display());
    let (real, root) = match (fs::canonicalize(&path), fs::canonicalize(folder)) {
        (Ok(real), Ok(root)) => (real, root),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotFound => {
            return wrong(format!("there is no file `{name}`"), &place());
        }
        (Err(error), _) | (_, Err(error)) => {
            return wrong(
                format!("the file `{name}` cannot be read: {error}"),
                &place(),
            );
        }
    };
    if !real.starts_with(&root) {
        let help = format!("it is {}; copy it into the folder", real.display());
        return wrong(
            format!("`{name}` is a link that leads out of its folder"),
            &help,
        );
    }
    let facts = match fs::metadata(&real) {
        Ok(facts) => facts,
        Err(error) => {
            return wrong(
                format!("the file `{name}` cannot be read: {error}"),
                &place(),
            );
        }
    };
    if facts.is_dir() {
        return wrong(format!("`{name}` is a folder"), "name each of its files");
    }
    if !facts.is_file() {
        return wrong(format!("`{name}` is neither a file nor a folder"), &place());
    }
    if facts.len() > LARGEST_FILE {
        let message = format!(
            "`{name}` has {}; a file that travels with a sweep has at most {}",
            mib(facts.len()),
            mib(LARGEST_FILE)
        );
        return wrong(message, BESIDE);
    }
    if before + facts.len() > LARGEST_SWEEP {
        let message = format!(
            "with `{name}` the files that travel have {}; those of one sweep have at most {}",
            mib(before + facts.len()),
            mib(LARGEST_SWEEP)
        );
        return wrong(message, BESIDE);
    }
    Ok(Source {
        bundle,
        name: name.to_owned(),
        path: real,
        size: facts.len(),
        executable: is_executable(&facts),
    })
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(unix)]
fn is_executable(facts: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    facts.permissions().mode() & 0o100 != 0
}

/// Windows has no such bit.
#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// The kit's programs, packages and lists of requirements: what is in its folder, without its tests, its documents, and
/// what Python or an editor left there.
pub fn kit(folder: &Path) -> Result<Vec<Source>, Error> {
    let mut names = Vec::new();
    list(folder, "", &mut names)?;
    names.sort();
    let mut sources: Vec<Source> = Vec::new();
    for name in names {
        let refused = |what: String| {
            let folder = folder.display();
            Error::BadInput(format!(
                "the kit {folder} cannot travel with the sweep: {what}"
            ))
        };
        check_name(&name).map_err(|bad| refused(bad.to_string()))?;
        let before = sources.iter().map(|source| source.size).sum();
        let source = look(Bundle::Kit, folder, &name, before);
        sources.push(source.map_err(|(message, help)| refused(format!("{message} ({help})")))?);
        if sources.len() > MOST_FILES {
            return Err(refused(format!("it has more than {MOST_FILES} files")));
        }
    }
    Ok(sources)
}

fn list(folder: &Path, before: &str, names: &mut Vec<String>) -> Result<(), Error> {
    let unreadable = |source| Error::Unreadable {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if stays(&name) {
            continue;
        }
        // Of the entry itself: a link to a folder is looked at as a file, and refused.
        if entry.file_type().map_err(unreadable)?.is_dir() {
            list(&entry.path(), &format!("{before}{name}/"), names)?;
        } else {
            names.push(format!("{before}{name}"));
        }
        if names.len() > 10 * MOST_FILES {
            let folder = folder.display();
            return Err(Error::BadInput(format!(
                "{folder} has too many files to be a kit"
            )));
        }
    }
    Ok(())
}

/// What does not travel.
fn stays(name: &str) -> bool {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    name.starts_with(['.', '#'])
        || name.starts_with("tests")
        || name == "__pycache__"
        || name.ends_with('~')
        || matches!(ending, Some("pyc" | "md" | "swp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "in",
            "kit/step",
            "kit/tests_more",
            "kit/__pycache__",
            "kit/.venv",
        ] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in [
            "in/a.txt",
            "out.txt",
            "kit/train.py",
            "kit/step/__init__.py",
            "kit/tests_more/x.py",
            "kit/__pycache__/a.pyc",
            "kit/.venv/b.py",
            "kit/.hidden",
            "kit/README.md",
            "kit/requirements.txt",
        ] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        folder
    }

    fn message(folder: &Path, name: &str) -> String {
        look(Bundle::Files, folder, name, 0).unwrap_err().0
    }

    #[test]
    fn a_kit_is_its_programs_without_its_tests() {
        let folder = folder();
        let found = kit(&folder.path().join("kit")).unwrap();
        let names: Vec<&str> = found.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["requirements.txt", "step/__init__.py", "train.py"]);
    }

    #[test]
    fn what_is_no_file_of_the_folder_is_refused() {
        let folder = folder();
        let inside = folder.path().join("in");
        assert!(look(Bundle::Files, &inside, "a.txt", 0).is_ok());
        assert!(message(&inside, "b.txt").contains("there is no file"));
        assert!(message(folder.path(), "in").contains("is a folder"));
        let too_much = look(Bundle::Files, &inside, "a.txt", LARGEST_SWEEP).unwrap_err();
        assert!(too_much.0.contains("256.0 MiB") && too_much.1.contains("[datasets]"));
        let large = fs::File::create(inside.join("large")).unwrap();
        large.set_len(LARGEST_FILE + 1).unwrap();
        assert!(message(&inside, "large").contains("at most 64.0 MiB"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_inside_and_refused_outside() {
        use std::os::unix::fs::symlink;
        let folder = folder();
        let inside = folder.path().join("in");
        symlink("a.txt", inside.join("same")).unwrap();
        symlink("../out.txt", inside.join("away")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("nowhere", inside.join("broken")).unwrap();
        assert!(look(Bundle::Files, &inside, "same", 0).is_ok());
        assert!(message(&inside, "away").contains("leads out"));
        assert!(message(&inside, "up/out.txt").contains("leads out"));
        assert!(message(&inside, "broken").contains("there is no file"));
        let null = look(Bundle::Files, Path::new("/dev"), "null", 0).unwrap_err();
        assert!(null.0.contains("neither a file nor a folder"), "{}", null.0);
        symlink("../out.txt", folder.path().join("kit/away.py")).unwrap();
        let error = kit(&folder.path().join("kit")).unwrap_err().to_string();
        assert!(
            error.contains("away.py") && error.contains("leads out"),
            "{error}"
        );
    }
}
