//! One rehearsal, and the look whether there can be any: a folder of its own, the kit's program in it, an answer, and
//! nothing left. Blocks; belongs on a thread of its own, which its child dies with.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proto::v1::{CanRehearse, Rehearse, Rehearsed};

use super::answer::{self, STREAM_MAX};
use super::child::{self, Limits};
use crate::attempt::Setting;
use crate::os;

/// Importing the libraries from a cold disk may take a minute.
const CHECK: Duration = Duration::from_secs(180);
/// Where the coordinator says nothing.
const LONGEST: Duration = Duration::from_secs(900);
const LONGEST_KEY: usize = 64;

/// Ends what an earlier agent on this folder left running, and removes its folders.
pub fn clean(setting: &Setting) {
    let folder = setting.folder.rehearsals();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        child::end_leftovers(&entry.path());
    }
    remove(&folder);
}

/// Whether the host's Python can rehearse with this kit.
pub fn check(setting: &Setting, stop: &AtomicBool) -> CanRehearse {
    let cannot = |why_not: String| CanRehearse {
        why_not,
        ..CanRehearse::default()
    };
    let program = setting.kit.join("rehearse.py");
    if !program.is_file() {
        return cannot(format!("there is no {}", program.display()));
    }
    let folder = setting.folder.rehearsals().join("check");
    let limits = limits(setting, CHECK, stop);
    let said = within(&folder, || {
        let mut command = child::command(setting, &folder, &["--check"]);
        child::run(&mut command, &folder, &limits).map_err(|error| not_started(setting, &error))
    });
    said.map_or_else(cannot, |ran| answer::check(&ran))
}

pub fn rehearse(setting: &Setting, ask: &Rehearse, stop: &AtomicBool) -> Rehearsed {
    let plain = |c: char| c.is_ascii_alphanumeric();
    if ask.key.is_empty() || ask.key.len() > LONGEST_KEY || !ask.key.chars().all(plain) {
        return answer::failed(&ask.key, "not_started", "its key is none");
    }
    // Also goes before a command line.
    if !answer::device(ask).chars().all(plain) {
        return answer::failed(&ask.key, "not_started", "its device is none");
    }
    let folder = setting.folder.rehearsals().join(&ask.key);
    let asked = Duration::from_millis(ask.time_limit_ms);
    let time = if asked.is_zero() { LONGEST } else { asked };
    let limits = limits(setting, time, stop);
    let done = within(&folder, || {
        let (settings, stream) = (folder.join("settings.json"), folder.join("stream.gz"));
        fs::write(&settings, &ask.settings)
            .map_err(|error| format!("could not write {}: {error}", settings.display()))?;
        let workspace = format!("{}", ask.workspace_bytes as f64 / f64::from(1 << 20));
        let words = [
            "settings.json",
            "--out",
            "stream.gz",
            "--mode",
            &ask.mode,
            "--device",
            answer::device(ask),
            "--workspace-mib",
            &workspace,
        ];
        let mut command = child::command(setting, &folder, &words);
        let ran = child::run(&mut command, &folder, &limits)
            .map_err(|error| not_started(setting, &error))?;
        Ok(answer::of(ask, &ran, fs::read(&stream).ok()))
    });
    done.unwrap_or_else(|why| answer::failed(&ask.key, "not_started", why))
}

fn limits<'a>(setting: &Setting, time: Duration, stop: &'a AtomicBool) -> Limits<'a> {
    Limits {
        time,
        memory: setting.config.rehearsal_memory,
        file: STREAM_MAX + 1,
        stop,
    }
}

/// With the folder made before and removed after, whatever comes of it.
fn within<T>(folder: &Path, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    remove(folder);
    os::private_folder(folder)
        .map_err(|error| format!("could not make the folder {}: {error}", folder.display()))?;
    let done = work();
    remove(folder);
    done
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "a rehearsal's folder is not removed");
    }
}

fn not_started(setting: &Setting, error: &std::io::Error) -> String {
    let python = &setting.config.python;
    format!(
        "could not start `{python}`: {error}; name the interpreter in the host's file (python = \"...\")"
    )
}
