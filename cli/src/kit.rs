//! Where the programs are that come with `sweep`, the folder that `{kit}` stands for. Looks and reports; a host's
//! own `kit = "..."` goes before anything found here, and that is the agent's to apply.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// A folder with this file is a kit.
const MARK: &str = "sweep_report.py";

/// `$SWEEP_KIT`; else the first kit among: `kit` beside the executable, `share/sweep/kit` beside its folder, and
/// `jobs/kit` in a folder above the sweep file, the current folder or the executable (a source tree).
pub fn find(sweep_file: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    if let Some(given) = std::env::var_os("SWEEP_KIT").filter(|given| !given.is_empty()) {
        let given = PathBuf::from(given);
        if !given.is_dir() {
            return Err(Error::BadInput(format!(
                "SWEEP_KIT is {}, which is not a folder",
                given.display()
            )));
        }
        return Ok(Some(absolute(given)));
    }
    let executable = std::env::current_exe().ok();
    let current = std::env::current_dir().ok();
    let found = candidates(sweep_file, current.as_deref(), executable.as_deref())
        .into_iter()
        .find(|folder| folder.join(MARK).is_file());
    Ok(found.map(absolute))
}

/// In the order in which they are tried.
fn candidates(
    sweep_file: Option<&Path>,
    current: Option<&Path>,
    executable: Option<&Path>,
) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(beside) = executable.and_then(Path::parent) {
        folders.push(beside.join("kit"));
        folders.extend(beside.parent().map(|above| above.join("share/sweep/kit")));
    }
    let sweep_file = sweep_file.and_then(|file| std::path::absolute(file).ok());
    for start in [sweep_file.as_deref(), current, executable]
        .into_iter()
        .flatten()
    {
        folders.extend(start.ancestors().map(|above| above.join("jobs/kit")));
    }
    folders
}

fn absolute(folder: PathBuf) -> PathBuf {
    std::path::absolute(&folder).unwrap_or(folder)
}

/// What to say when it is needed and nowhere.
pub fn missing() -> Error {
    Error::BadInput(
        "the sweep's programs use {kit}, and no kit folder was found; set SWEEP_KIT to the folder with \
         sweep_report.py (jobs/kit in the source tree)"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_kit_goes_before_a_source_tree() {
        let folders = candidates(
            Some(Path::new("/src/jobs/a.toml")),
            Some(Path::new("/home")),
            Some(Path::new("/opt/bin/sweep")),
        );
        let at = |wanted: &str| {
            folders
                .iter()
                .position(|folder| folder == Path::new(wanted))
        };
        assert_eq!(at("/opt/bin/kit"), Some(0));
        assert_eq!(at("/opt/share/sweep/kit"), Some(1));
        assert!(at("/src/jobs/kit") < at("/home/jobs/kit"));
        assert!(at("/src/jobs/kit").is_some());
    }
}
