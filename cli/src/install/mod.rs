//! Makes a server of this machine that starts with it: the program, the kit, a user, folders, the unit. What is to be
//! done is a list (`units`), which `--dry-run` shows; doing it (`steps`) is apart. Overwrites no host file and no token,
//! and ends no attempt.

pub mod steps;
pub mod units;

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{kit, out};
use steps::Step;

/// What both servers ask.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// User that the service runs as; made if it is not there
    #[arg(long, value_name = "USER", default_value = "sweep")]
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
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if self.user.is_empty() || !self.user.chars().all(plain) {
            return Err(Error::BadInput(format!(
                "`{}` is no name of a user: small letters, digits, - and _",
                self.user
            )));
        }
        if !cfg!(target_os = "linux") {
            return Err(Error::Refused(
                "installing a service is for Linux with systemd in this version".to_owned(),
            ));
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

    /// Does them, or shows them.
    pub fn carry_out(&self, steps: &[Step], context: &Context) -> Result<Exit, Error> {
        if self.dry_run {
            let shown: Vec<_> = steps.iter().map(Step::shown).collect();
            out::document(context, &shown, |shown| shown.join("\n"))?;
            return Ok(Exit::DONE);
        }
        for step in steps {
            let said = step.carry_out(self.root.as_deref())?;
            out::note(context, &said);
        }
        Ok(Exit::DONE)
    }
}

/// Names of the system's groups: a unit that names another does not start.
fn groups(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(':').next());
    names.map(str::to_owned).collect()
}
