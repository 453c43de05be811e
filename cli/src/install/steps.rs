//! One thing that an installation does, how it is shown, and doing it. A file is written beside its place and renamed,
//! with its rights from the first moment; what is kept is left as it is. Shows no secret.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::windows::Service;
use crate::error::Error;

#[cfg(windows)]
use super::scm as services;

/// Where there are none of that kind.
#[cfg(not(windows))]
mod services {
    use super::{Error, Service};

    fn refused<T>() -> Result<T, Error> {
        Err(Error::Refused("this service is for Windows".to_owned()))
    }

    pub fn install(_service: &Service) -> Result<bool, Error> {
        refused()
    }

    pub fn restart() -> Result<bool, Error> {
        refused()
    }

    pub fn remove() -> Result<bool, Error> {
        refused()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A system user without a shell, if there is none of that name.
    User {
        name: String,
        home: PathBuf,
    },
    Folder {
        path: PathBuf,
        mode: u32,
        owner: Option<String>,
    },
    /// A file, or a folder with all that is in it.
    Copy {
        from: PathBuf,
        to: PathBuf,
        mode: u32,
    },
    Write {
        path: PathBuf,
        text: String,
        mode: u32,
        owner: Option<String>,
        /// Leaves one that is there.
        keep: bool,
    },
    Remove {
        path: PathBuf,
    },
    /// In Windows' own sixteen bits, which its task scheduler reads.
    WriteWide {
        path: PathBuf,
        text: String,
    },
    /// Makes a Windows service, or brings it up to date.
    Service(Service),
    /// Ends it, if it runs, and starts it.
    RestartService(&'static str),
    /// Ends it and takes it away, if there is one.
    RemoveService(&'static str),
    /// Not with `--root`. Fails the installation unless `may_fail`.
    Run {
        words: Vec<String>,
        may_fail: bool,
    },
}

impl Step {
    #[must_use]
    pub fn run(words: &[&str]) -> Self {
        Self::Run {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            may_fail: false,
        }
    }

    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::User { name, .. } => format!("make the user {name}, if there is none"),
            Self::Folder { path, mode, .. } => format!("make {} ({mode:o})", path.display()),
            Self::Copy { from, to, .. } => format!("copy {} to {}", from.display(), to.display()),
            Self::Write {
                path, keep: true, ..
            } => {
                format!("write {}, if there is none", path.display())
            }
            Self::Write { path, .. } => format!("write {}", path.display()),
            Self::WriteWide { path, .. } => format!("write {}", path.display()),
            Self::Remove { path } => format!("remove {}", path.display()),
            Self::Service(service) => format!(
                "make the service sweep-agent (delayed start, started again when it fails) as {}: {} {}",
                service.account,
                service.program.display(),
                service.words.join(" ")
            ),
            Self::RestartService(name) => format!("start the service {name}, anew if it runs"),
            Self::RemoveService(name) => format!("remove the service {name}, if there is one"),
            Self::Run { words, .. } => format!("run {}", words.join(" ")),
        }
    }

    /// What was done. `root` stands for `/`.
    pub fn carry_out(&self, root: Option<&Path>) -> Result<String, Error> {
        let done = match self {
            Self::User { name, home } => user(name, home, root)?,
            Self::Folder { path, mode, owner } => {
                let at = at(root, path);
                fs::create_dir_all(&at)
                    .and_then(|()| rights(&at, *mode))
                    .map_err(failed("make", path))?;
                own(path, owner.as_deref(), root)?;
                true
            }
            Self::Copy { from, to, mode } => {
                copy(from, &at(root, to), *mode).map_err(failed("copy to", to))?
            }
            Self::Write {
                path,
                text,
                mode,
                owner,
                keep,
            } => {
                let at = at(root, path);
                let there = at.exists();
                if !(there && *keep) {
                    write(&at, text.as_bytes(), *mode).map_err(failed("write", path))?;
                    own(path, owner.as_deref(), root)?;
                }
                !(there && *keep)
            }
            Self::Remove { path } => match fs::remove_file(at(root, path)) {
                Ok(()) => true,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(error) => return Err(failed("remove", path)(error)),
            },
            Self::WriteWide { path, text } => {
                let wide = "\u{feff}".chars().chain(text.chars());
                let wide: Vec<u16> = wide.collect::<String>().encode_utf16().collect();
                let bytes: Vec<u8> = wide.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                write(&at(root, path), &bytes, 0).map_err(failed("write", path))?;
                true
            }
            Self::Service(service) => services::install(service)?,
            Self::RestartService(_) => services::restart()?,
            Self::RemoveService(_) => services::remove()?,
            Self::Run { words, may_fail } => root.is_none() && call(words, *may_fail)?,
        };
        let mark = if done { "done" } else { "left" };
        Ok(format!("{mark}: {}", self.shown()))
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |error| {
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied if cfg!(windows) => " (run it as administrator)",
            std::io::ErrorKind::PermissionDenied => " (run it as root)",
            _ => "",
        };
        Error::Failed(format!("failed to {doing} {path}: {error}{hint}"))
    }
}

fn at(root: Option<&Path>, path: &Path) -> PathBuf {
    let Some(root) = root else {
        return path.to_owned();
    };
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn user(name: &str, home: &Path, root: Option<&Path>) -> Result<bool, Error> {
    let known = fs::read_to_string(at(root, Path::new("/etc/passwd"))).unwrap_or_default();
    let begin = format!("{name}:");
    if known.lines().any(|line| line.starts_with(&begin)) {
        return Ok(false);
    }
    let mut words = vec!["useradd".to_owned()];
    if let Some(root) = root {
        words.extend(["--root".to_owned(), root.display().to_string()]);
    }
    let home = home.display().to_string();
    words.extend(["--system", "--user-group", "--home-dir", &home].map(str::to_owned));
    words.extend(["--shell", "/usr/sbin/nologin", name].map(str::to_owned));
    call(&words, false)
}

/// True unless it is the same already. A folder is replaced whole: what an older version had goes.
fn copy(from: &Path, to: &Path, mode: u32) -> std::io::Result<bool> {
    let source = fs::canonicalize(from)?;
    if fs::canonicalize(to).is_ok_and(|target| target == source) {
        return Ok(false);
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    // A program that runs cannot be written over, but its name can be given to another.
    let beside = to.with_extension("new");
    if !source.is_dir() {
        copy_file(&source, &beside, mode)?;
        put_aside(to)?;
        fs::rename(&beside, to)?;
        return Ok(true);
    }
    let old = to.with_extension("old");
    for left in [&beside, &old] {
        if left.exists() {
            fs::remove_dir_all(left)?;
        }
    }
    copy_folder(&source, &beside, mode)?;
    if to.exists() {
        fs::rename(to, &old)?;
    }
    fs::rename(&beside, to)?;
    let _ = fs::remove_dir_all(&old);
    Ok(true)
}

/// Windows replaces no program that runs, but lets it be renamed: shepherds go on with the old one. What of those is
/// left from before and runs no more is removed.
#[cfg(windows)]
fn put_aside(program: &Path) -> std::io::Result<()> {
    for number in 0..100 {
        let old = program.with_extension(format!("old{number}"));
        if !old.exists() || fs::remove_file(&old).is_ok() {
            return match fs::rename(program, &old) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
        }
    }
    Err(std::io::Error::other("a hundred older ones still run"))
}

#[cfg(not(windows))]
fn put_aside(_program: &Path) -> std::io::Result<()> {
    Ok(())
}

fn copy_folder(from: &Path, to: &Path, mode: u32) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    rights(to, 0o755)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        // What Python left there is no part of a kit.
        if kind.is_dir() && name != "__pycache__" {
            copy_folder(&entry.path(), &to.join(&name), mode)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &to.join(&name), mode)?;
        }
    }
    Ok(())
}

/// A program stays one.
fn copy_file(from: &Path, to: &Path, mode: u32) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let mode = if is_program(from) { 0o755 } else { mode };
    rights(to, mode)?;
    // Windows syncs what is open for writing.
    match fs::OpenOptions::new().append(true).open(to) {
        Ok(file) => file.sync_all(),
        // A file without the right to be written, for whoever is not root.
        Err(_) => fs::File::open(to)?.sync_all(),
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_program(_path: &Path) -> bool {
    false
}

#[cfg_attr(not(unix), allow(unused_variables))]
fn write(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension("new");
    let _ = fs::remove_file(&beside);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode & 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rights(&beside, mode)?;
    fs::rename(&beside, path)
}

#[cfg(unix)]
fn rights(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn rights(_path: &Path, _mode: u32) -> std::io::Result<()> {
    Ok(())
}

fn own(path: &Path, owner: Option<&str>, root: Option<&Path>) -> Result<(), Error> {
    let Some(owner) = owner else { return Ok(()) };
    // With its own first group, whatever that is called.
    let both = format!("{owner}:");
    let mut words = vec!["chown".to_owned(), both, path.display().to_string()];
    if let Some(root) = root {
        // Its users are not this machine's.
        words.splice(0..0, ["chroot".to_owned(), root.display().to_string()]);
    }
    call(&words, false).map(drop)
}

fn call(words: &[String], may_fail: bool) -> Result<bool, Error> {
    let Some((program, rest)) = words.split_first() else {
        return Ok(false);
    };
    let shown = words.join(" ");
    let ran = Command::new(program).args(rest).output();
    let ran = ran.map_err(|source| Error::io("run", shown.clone(), source))?;
    if ran.status.success() || may_fail {
        return Ok(ran.status.success());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(Error::Failed(format!(
        "failed to run {shown}: {}: {}",
        ran.status,
        said.trim()
    )))
}
