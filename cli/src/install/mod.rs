//! Makes a server of this machine that starts with it: the program, the kit, a user or an account, folders, the unit or
//! the service. What is to be done is a list (`units` for systemd, `windows`), which `--dry-run` shows; doing it (`steps`,
//! `scm`) is apart. Overwrites no host file, and ends no attempt.

#[cfg(windows)]
mod scm;
pub mod steps;
pub mod units;
#[cfg_attr(not(windows), allow(dead_code, reason = "tested everywhere"))]
pub mod windows;

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{kit, out};
use steps::Step;

#[cfg(windows)]
const USER: &str = windows::OWN_ACCOUNT;
#[cfg(not(windows))]
const USER: &str = "sweep";

/// What both servers ask.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// User that the service runs as, made if it is not there; on Windows its own account, or LocalSystem
    #[arg(long, value_name = "USER", default_value = USER)]
    pub user: String,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Install into this folder as if it were `/`, and start nothing
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

impl Common {
    pub fn check(&self) -> Result<(), Error> {
        if cfg!(windows) {
            return self.check_windows();
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if self.user.is_empty() || !self.user.chars().all(plain) {
            return Err(Error::BadInput(format!(
                "`{}` is no name of a user: small letters, digits, - and _",
                self.user
            )));
        }
        if !cfg!(target_os = "linux") {
            return Err(Error::Refused(
                "installing a service is for Linux with systemd, and for Windows".to_owned(),
            ));
        }
        Ok(())
    }

    /// Of a machine that keeps the store.
    pub fn check_keeper(&self) -> Result<(), Error> {
        if cfg!(windows) {
            return Err(Error::Refused(
                "installing a coordinator as a service is for Linux with systemd".to_owned(),
            ));
        }
        self.check()
    }

    fn check_windows(&self) -> Result<(), Error> {
        if self.root.is_some() {
            return Err(Error::BadInput("--root is for Linux".to_owned()));
        }
        if ![windows::OWN_ACCOUNT, windows::SYSTEM].contains(&self.user.as_str()) {
            return Err(Error::BadInput(format!(
                "the service's account is `{}`, or `{}` where drivers ask for it; an agent in a user's own session is \
                 --mode logon-task",
                windows::OWN_ACCOUNT,
                windows::SYSTEM
            )));
        }
        Ok(())
    }

    pub fn machine(&self) -> Result<units::Machine, Error> {
        let program = std::env::current_exe()
            .map_err(|source| Error::io("find", "this executable", source))?;
        Ok(units::Machine {
            program,
            kit: kit::find(None)?,
            user: self.user.clone(),
            groups: groups(self.root.as_deref().unwrap_or(Path::new("/"))),
        })
    }

    /// The same of a Windows machine. A task at logon is of whoever installs it.
    pub fn windows_machine(&self, mode: windows::Mode) -> Result<windows::Machine, Error> {
        let program = std::env::current_exe()
            .map_err(|source| Error::io("find", "this executable", source))?;
        let variable = |name: &str, otherwise: &str| {
            let told = std::env::var(name).ok().filter(|text| !text.is_empty());
            told.unwrap_or_else(|| otherwise.to_owned())
        };
        let account = match mode {
            windows::Mode::Service => self.user.clone(),
            windows::Mode::LogonTask => {
                let domain = variable("USERDOMAIN", ".");
                format!(r"{domain}\{}", variable("USERNAME", ""))
            }
        };
        Ok(windows::Machine {
            program,
            kit: kit::find(None)?,
            programs: variable("ProgramFiles", r"C:\Program Files"),
            data: variable("ProgramData", r"C:\ProgramData"),
            account,
        })
    }

    /// Does them, or shows them.
    pub fn carry_out(&self, steps: &[Step], context: &Context) -> Result<Exit, Error> {
        if self.dry_run {
            let shown: Vec<_> = steps.iter().map(Step::shown).collect();
            out::document(context, &shown, |shown| shown.join("\n"))?;
            return Ok(Exit::DONE);
        }
        let mut done = Vec::new();
        for step in steps {
            let said = step.carry_out(self.root.as_deref())?;
            out::note(context, &said);
            done.push(said);
        }
        if context.json {
            out::json(&done)?;
        }
        Ok(Exit::DONE)
    }
}

/// Runs this program with these words as a service that is there only for that, in the session of services.
#[cfg(windows)]
pub fn look_as_service(words: &[String]) -> Result<(), Error> {
    let program =
        std::env::current_exe().map_err(|source| Error::io("find", "this executable", source))?;
    scm::once(program, words)
}

#[cfg(not(windows))]
pub fn look_as_service(_words: &[String]) -> Result<(), Error> {
    Err(Error::BadInput("--in-service is for Windows".to_owned()))
}

/// Names of the system's groups: a unit that names another does not start.
fn groups(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(':').next());
    names.map(str::to_owned).collect()
}
