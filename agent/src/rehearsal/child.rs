//! Runs one Python program of the kit to its end, under limits of time, memory and output, and leaves nothing of it
//! behind. Says how it ended; what that means is `answer`'s business.

use std::io::{self, Read};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use vram::Bytes;

use crate::attempt::Setting;
use crate::attempt::command::{ALWAYS, PYTHON_CACHE};
use crate::attempt::shepherd::passed;
use crate::clock;
use crate::os::{self, Exit, Lowly};

const LOOK: Duration = Duration::from_millis(20);
/// Of what it says, the end is kept.
const WORDS: usize = 256 << 10;
/// Names the folder of a rehearsal in the environment of all its processes.
const MARK: &str = "SWEEP_REHEARSAL";

pub struct Limits<'a> {
    pub time: Duration,
    pub memory: Bytes,
    /// Of each file that it writes.
    pub file: u64,
    /// Set by whoever does not want it any more.
    pub stop: &'a AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Itself(Exit),
    OutOfTime,
    /// Beyond its limit.
    OutOfMemory,
    Stopped,
}

#[derive(Debug)]
pub struct Ran {
    pub ended: Ended,
    /// The end of its standard output.
    pub said: String,
    /// The end of its standard error.
    pub complained: String,
    pub seconds: f64,
    /// Resident memory of it and of all below it, at its highest.
    pub peak: Bytes,
    /// What it was allowed.
    pub allowed: Bytes,
    /// The kernel ended something for want of memory meanwhile.
    pub oom_kill: bool,
}

/// `PYTHON KIT/rehearse.py WORDS`, with no device to be seen and no network to be asked.
pub fn command(setting: &Setting, folder: &Path, words: &[&str]) -> Command {
    let config = &setting.config;
    let mut names: Vec<String> = ALWAYS.map(str::to_owned).into();
    names.extend(config.pass_env.clone());
    let mut command = Command::new(&config.python);
    command
        .arg(setting.kit.join("rehearse.py"))
        .args(words)
        .current_dir(folder)
        .env_clear()
        .envs(passed(&names, std::env::vars_os()))
        .envs(&config.env);
    for hidden in [
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    ] {
        command.env(hidden, "-1");
    }
    for on in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PYTHONUNBUFFERED"] {
        command.env(on, "1");
    }
    command
        .env(PYTHON_CACHE, setting.folder.byte_code())
        .env("TMPDIR", folder)
        .env(MARK, folder);
    command
}

pub fn run(command: &mut Command, folder: &Path, limits: &Limits<'_>) -> io::Result<Ran> {
    let begin = clock::monotonic();
    let kills = os::oom_kills();
    let mut peak = Bytes::ZERO;
    let mut child = Lowly::start(command, limits.file)?;
    let (out, err) = child.output();
    let (out, err) = (read_end(out), read_end(err));
    let cut = loop {
        if child.has_ended() {
            break None;
        }
        if limits.stop.load(Ordering::Relaxed) {
            break Some(Ended::Stopped);
        }
        if begin.elapsed() >= limits.time {
            break Some(Ended::OutOfTime);
        }
        let resident = Bytes(child.resident());
        peak = peak.max(resident).max(Bytes(child.peak()));
        if resident > limits.memory {
            break Some(Ended::OutOfMemory);
        }
        std::thread::sleep(LOOK);
    };
    let exit = child.end()?;
    // Whatever it has set free of itself still holds the pipes.
    end_leftovers(folder);
    Ok(Ran {
        ended: cut.unwrap_or(Ended::Itself(exit)),
        said: words(out),
        complained: words(err),
        seconds: begin.elapsed().as_secs_f64(),
        peak,
        allowed: limits.memory,
        oom_kill: os::oom_kills() > kills,
    })
}

/// Ends every process that belongs to this folder.
pub fn end_leftovers(folder: &Path) {
    let (_, stuck) = os::end_leftovers(None, &format!("{MARK}={}", folder.display()));
    if stuck > 0 {
        tracing::warn!(folder = %folder.display(), stuck, "processes of a rehearsal would not end");
    }
}

/// Reads to the end and keeps the last words, so that nothing ever waits for its reader.
fn read_end(from: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let mut from = from?;
    Some(std::thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; 8192]);
        while let Ok(read @ 1..) = from.read(&mut piece) {
            kept.extend_from_slice(&piece[..read]);
            if kept.len() > 2 * WORDS {
                kept.drain(..kept.len() - WORDS);
            }
        }
        kept
    }))
}

fn words(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let read = reader.and_then(|reader| reader.join().ok());
    String::from_utf8_lossy(&read.unwrap_or_default()).into_owned()
}
