//! The edge of the simulation: environment, clock, log, report and checkpoint files. Performs a script in scaled time,
//! asleep in between, and ends within moments of being asked to.
//! Decides nothing of what is shown.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use super::card::{Card, Config};
use super::scene::script;
use super::script::{Ending, Script, What};
use super::stop::Stop;
use super::{ASKS_AGAIN, BAD_SETUP, CARD_VARIABLE, SEED_VARIABLE};
use crate::clock::monotonic;

/// As a program that SIGTERM ended without a word.
const ENDED: u8 = 143;

#[derive(Debug, Error)]
pub(super) enum PlayError {
    #[error("find ${0}: an agent starts the simulation, with a job's environment")]
    Missing(&'static str),
    #[error("understand {what}: {why}")]
    Malformed { what: String, why: String },
    #[error("read the settings: {0}")]
    Settings(#[from] vram::RecipeError),
    #[error("use {what}: {source}")]
    Io { what: String, source: io::Error },
}

impl PlayError {
    /// A disk may be better tomorrow, a wrong configuration will not.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Io { .. } => 1,
            _ => BAD_SETUP,
        }
    }
}

fn io_at(what: impl Into<String>) -> impl FnOnce(io::Error) -> PlayError {
    let what = what.into();
    move |source| PlayError::Io { what, source }
}

fn variable(name: &'static str) -> Result<OsString, PlayError> {
    std::env::var_os(name).ok_or(PlayError::Missing(name))
}

/// Plays the job that the environment names, and gives its exit code.
pub(super) fn from_environment() -> Result<u8, PlayError> {
    // First of all: a request to end that comes during the set-up is kept, not lost.
    let stop = Stop::listen().map_err(io_at("the signal to end"))?;
    let card = variable(CARD_VARIABLE)?;
    let card = Card::parse(&card.to_string_lossy()).map_err(malformed(CARD_VARIABLE))?;
    let path = PathBuf::from(variable("SWEEP_CONFIG")?);
    let text = fs::read_to_string(&path).map_err(io_at(path.display().to_string()))?;
    let config: Config = serde_json::from_str(&text)
        .map_err(|error| malformed(&path.display().to_string())(error.to_string()))?;
    let checkpoints = std::env::var_os("SWEEP_CHECKPOINT_DIR").map(PathBuf::from);
    let fresh = std::env::var_os("SWEEP_RESUME").is_some_and(|resume| resume == "0");
    let resumed = match (&checkpoints, config.kind) {
        (Some(folder), jobs::Kind::Train) if !fresh => newest(folder),
        _ => 0,
    };
    let script = script(&config, &card, fleet_seed(), resumed)?;
    let mut stage = Stage {
        report: open_report()?,
        checkpoints: checkpoints.filter(|_| config.kind == jobs::Kind::Train),
        seed: config.seed,
    };
    stage.play(&script, card.time_scale, &stop)
}

fn malformed(what: &str) -> impl FnOnce(String) -> PlayError {
    let what = what.to_owned();
    move |why| PlayError::Malformed { what, why }
}

fn fleet_seed() -> u64 {
    let text = std::env::var(SEED_VARIABLE).unwrap_or_default();
    text.parse().unwrap_or(0)
}

fn open_report() -> Result<File, PlayError> {
    let path = PathBuf::from(variable("SWEEP_REPORT")?);
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.map_err(io_at(path.display().to_string()))
}

/// Where a script is performed.
struct Stage {
    report: File,
    checkpoints: Option<PathBuf>,
    seed: u64,
}

impl Stage {
    fn play(&mut self, script: &Script, time_scale: f64, stop: &Stop) -> Result<u8, PlayError> {
        let start = monotonic();
        let mut done = 0;
        for step in &script.steps {
            let due = start + Duration::from_secs_f64((step.at / time_scale).clamp(0.0, 1e9));
            if stop.asked_by(due) {
                return self.asked_to_end(done);
            }
            done = step.done;
            self.perform(&step.what, done)?;
        }
        match script.ending {
            Ending::Exit(code) => Ok(code),
            Ending::Hang => {
                stop.wait();
                Ok(ENDED)
            }
        }
    }

    fn perform(&mut self, what: &What, done: u64) -> Result<(), PlayError> {
        match what {
            What::Say(line) => say(line).map_err(io_at("standard output")),
            What::Complain(text) => complain(text).map_err(io_at("standard error")),
            What::Report(line) => self.tell(line),
            What::Checkpoint => self.save(done),
        }
    }

    /// One write for a whole line: a reader never sees half of one from here.
    fn tell(&mut self, line: &Value) -> Result<(), PlayError> {
        let line = format!("{line}\n");
        self.report
            .write_all(line.as_bytes())
            .map_err(io_at("the report"))
    }

    fn save(&mut self, step: u64) -> Result<(), PlayError> {
        let Some(folder) = &self.checkpoints else {
            return Ok(());
        };
        let path = folder.join(format!("{PREFIX}{step:06}.json"));
        let content = json!({"simulated": true, "step": step, "seed": self.seed});
        write_whole(&path, &content).map_err(io_at(path.display().to_string()))?;
        self.tell(&json!({"checkpoint": path.to_string_lossy(), "step": step}))
    }

    fn asked_to_end(&mut self, done: u64) -> Result<u8, PlayError> {
        if done > 0 {
            self.save(done)?;
        }
        let line = format!(
            "simulated: asked to end after step {done}; exit {ASKS_AGAIN} asks to be started again"
        );
        say(&line).map_err(io_at("standard output"))?;
        Ok(ASKS_AGAIN)
    }
}

const PREFIX: &str = "simulated-step-";

/// Under its name only when it is whole.
fn write_whole(path: &Path, content: &Value) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let unfinished = path.with_extension("part");
    fs::write(&unfinished, content.to_string())?;
    fs::rename(unfinished, path)
}

/// Step of the newest whole checkpoint; 0 when there is none.
fn newest(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let steps = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let step = name.strip_prefix(PREFIX)?.strip_suffix(".json")?;
        step.parse::<u64>().ok()
    });
    steps.max().unwrap_or(0)
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

pub(super) fn complain(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_checkpoint_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()), 0);
        assert_eq!(newest(&folder.path().join("absent")), 0);
        for name in [
            "simulated-step-000025.json",
            "simulated-step-000100.json",
            "simulated-step-000125.part",
            "other",
        ] {
            fs::write(folder.path().join(name), "{}").unwrap();
        }
        assert_eq!(newest(folder.path()), 100);
    }
}
