//! Starts the program of an order: environment, secrets, output straight into the log.
//! The kernel writes the log, so no amount of output and no kind of bytes passes through here. Refuses to start with
//! a secret missing, and never says what one contains.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::attempt::AttemptFolder;
use crate::attempt::order::Order;
use crate::os::{self, Program, Reins};
use crate::trust::SECRETS;

/// The error says what was wrong and what to do.
pub fn start(folder: &AttemptFolder, order: &Order, reins: &Reins) -> Result<Program, String> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err("there is no program to start".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
        .env_clear()
        .envs(passed(&order.pass_env, std::env::vars_os()));
    command.envs(&order.env).envs(secrets(&order.secrets)?);
    for name in SECRETS {
        command.env_remove(name);
    }
    command.current_dir(&order.folder);
    let log = open_log(&folder.log())?;
    let again = log
        .try_clone()
        .map_err(|error| not_written(&folder.log(), &error))?;
    command.stdout(log).stderr(again);
    reins
        .start(&mut command)
        .map_err(|error| explain(order, &error))
}

fn open_log(path: &Path) -> Result<File, String> {
    let log = OpenOptions::new().create(true).append(true).open(path);
    log.map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    let what = text.split(" (os error").next().unwrap_or(&text);
    format!("could not write {}: {what}", path.display())
}

/// The shepherd's own variables that the order names; `HF_*` stands for all that begin so.
pub(crate) fn passed(
    names: &[String],
    own: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let wanted = |variable: &str| {
        names.iter().any(|name| match name.strip_suffix('*') {
            Some(begin) => variable
                .get(..begin.len())
                .is_some_and(|start| os::same_variable(start, begin)),
            None => os::same_variable(variable, name),
        })
    };
    own.filter(|(name, _)| {
        name.to_str()
            .is_some_and(|name| wanted(name) && !is_secret(name))
    })
    .collect()
}

fn is_secret(name: &str) -> bool {
    SECRETS.iter().any(|secret| os::same_variable(secret, name))
}

fn secrets(
    files: &BTreeMap<String, std::path::PathBuf>,
) -> Result<BTreeMap<&String, String>, String> {
    let read = |(name, path): (_, &std::path::PathBuf)| match fs::read_to_string(path) {
        Ok(content) => Ok((name, content.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) => Err(format!(
            "could not read the secret {name} from {}: {error}; put it there or correct [secrets] in the host's file",
            path.display()
        )),
    };
    files.iter().map(read).collect()
}

fn explain(order: &Order, error: &io::Error) -> String {
    let program = order.argv.first().map_or("", String::as_str);
    if !order.folder.is_dir() {
        return format!("the folder {} is gone: {error}", order.folder.display());
    }
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the program `{program}` does not exist on this host (or what its first line names); install it, correct \
             `run` in the sweep file, or name the interpreter in the host's file"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "the program `{program}` may not be executed; make it executable (chmod +x) or start it through its \
             interpreter, as in run = [\"{{python}}\", ...]"
        ),
        _ if error.raw_os_error() == Some(8) => format!(
            "the program `{program}` has no format that this system executes; start it through its interpreter, as in \
             run = [\"{{python}}\", ...]"
        ),
        _ => format!("the program `{program}` could not be started: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_pass_by_name_and_by_beginning() {
        let own =
            ["HF_HOME", "HF_TOKEN", "WANDB_MODE", "OTHER"].map(|name| (name.into(), "x".into()));
        let names = [
            "HF_*".to_owned(),
            "WANDB_MODE".to_owned(),
            "ABSENT".to_owned(),
        ];
        let passed: Vec<_> = passed(&names, own.into_iter())
            .into_iter()
            .map(|one| one.0)
            .collect();
        assert_eq!(passed, ["HF_HOME", "HF_TOKEN", "WANDB_MODE"]);
    }

    #[test]
    fn no_name_and_no_beginning_passes_what_lets_somebody_in() {
        let own = SECRETS.map(|name| (name.into(), "x".into()));
        let names = [
            "SWEEP_*".to_owned(),
            "*".to_owned(),
            "SWEEP_TOKEN".to_owned(),
        ];
        assert_eq!(passed(&names, own.into_iter()), []);
    }

    #[test]
    fn a_secret_is_the_content_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "s3cret\n").unwrap();
        let files = BTreeMap::from([("TOKEN".to_owned(), path.clone())]);
        assert_eq!(secrets(&files).unwrap().values().next().unwrap(), "s3cret");
        fs::remove_file(&path).unwrap();
        let error = secrets(&files).unwrap_err();
        assert!(
            error.starts_with("could not read the secret TOKEN from "),
            "{error}"
        );
    }
}
