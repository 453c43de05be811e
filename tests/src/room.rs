//! A test's own room: a folder with data, programs and sweep files, ports that nobody else uses, and every process
//! that names the folder. Dropping it ends those processes; after a panic it first shows what the servers said.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::binary::sweep_in;
use crate::processes::{family, kill9};
use crate::{Agent, Coordinator, Host, Said, sweep_binary};

/// For one command; a test that needs longer says so.
const PATIENCE: Duration = Duration::from_secs(120);
const SHOWN: usize = 6000;

/// What the surroundings may have set.
pub(crate) const HIDDEN: [&str; 10] = [
    "SWEEP_DATA",
    "SWEEP_COORDINATOR",
    "SWEEP_KIT",
    "SWEEP_LOG",
    "SWEEP_TOKEN",
    "SWEEP_TOKEN_FILE",
    "SWEEP_JOIN_TOKEN",
    "SWEEP_JOIN_TOKEN_FILE",
    "SWEEP_CA",
    "XDG_CONFIG_HOME",
];

pub struct Room {
    folder: tempfile::TempDir,
    commands: Cell<u64>,
}

impl Room {
    #[must_use]
    pub fn new() -> Self {
        sweep_binary();
        let folder = tempfile::Builder::new()
            .prefix("sweep-room-")
            .tempdir()
            .expect("a temporary folder");
        fs::create_dir(folder.path().join("kit")).expect("a folder for programs");
        Self {
            folder,
            commands: Cell::new(0),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What `--data` names.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Jobs find a program of this name as `{kit}/NAME`.
    pub fn program(&self, name: &str, text: &str) {
        fs::write(self.path().join("kit").join(name), text).expect("a program");
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// A sweep of small jobs on a CPU: `axes` and `stages` are TOML, the rest is the same for all of them.
    pub fn sweep_file(&self, name: &str, axes: &str, stages: &str) -> PathBuf {
        let axes = if axes.is_empty() {
            String::new()
        } else {
            format!("[axes]\n{axes}\n")
        };
        let place = "[place]\ndevice = \"cpu\"\nmemory = \"64 MiB\"\n";
        self.file(
            &format!("{name}.toml"),
            &format!("[sweep]\nname = \"{name}\"\n{axes}{stages}\n{place}"),
        )
    }

    /// The lines that jobs have added to a file of the room.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Lets jobs go on that wait for this file.
    pub fn open(&self, gate: &str) {
        fs::write(self.path().join(gate), "").expect("a gate");
    }

    #[must_use]
    pub fn coordinator(&self) -> Coordinator {
        Coordinator::start(self)
    }

    /// A host of this name with a CPU of so many slots.
    #[must_use]
    pub fn agent(&self, name: &str, slots: u32, coordinator: &str) -> Agent {
        Host::new(name, slots).agent(self, coordinator)
    }

    /// `sweep` with nothing of the surroundings in its environment.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_in(None, words)
    }

    /// The same, inside a network namespace.
    #[must_use]
    pub fn command_in(&self, net: Option<&str>, words: &[&str]) -> Command {
        let mut command = sweep_in(net);
        command
            .args(words)
            .stdin(Stdio::null())
            .current_dir(self.path());
        for name in HIDDEN {
            command.env_remove(name);
        }
        // Nothing may fall into the user's own folders, and each process can be found by the room's path.
        command
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"));
        command.env("SWEEP_TEST_ROOM", self.path());
        command
    }

    /// Runs `sweep WORDS` to its end.
    #[track_caller]
    pub fn sweep(&self, words: &[&str]) -> Said {
        self.start(words).finish(PATIENCE)
    }

    /// Starts `sweep WORDS`; its output goes to files of the room.
    #[must_use]
    pub fn start(&self, words: &[&str]) -> Started {
        self.start_command(self.command(words), words)
    }

    /// The same with a command that the caller has changed.
    #[must_use]
    pub fn start_command(&self, mut command: Command, words: &[&str]) -> Started {
        let number = self.commands.replace(self.commands.get() + 1);
        let [out, err] =
            ["out", "err"].map(|end| self.path().join(format!("command-{number}.{end}")));
        let file = |path: &Path| fs::File::create(path).expect("a file for output");
        command.stdout(file(&out)).stderr(file(&err));
        let child = command.spawn().expect("sweep can be started");
        Started {
            words: words.join(" "),
            child,
            out,
            err,
        }
    }

    /// Ends every process of the room, and what those have started.
    pub fn clear(&self) {
        let path = self
            .path()
            .to_str()
            .expect("a path of plain text")
            .to_owned();
        let begin = Instant::now();
        // Whoever is killed may just be starting another one: until nobody is left.
        loop {
            let found = family(&path);
            if found.is_empty() || begin.elapsed() > Duration::from_secs(20) {
                return;
            }
            found.into_iter().for_each(kill9);
        }
    }

    fn show_servers(&self) {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "stderr"));
        paths.sort();
        for path in paths {
            let text = fs::read(&path).unwrap_or_default();
            let text =
                String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).into_owned();
            eprintln!(
                "== {} ==\n{text}",
                path.file_name().unwrap_or_default().to_string_lossy()
            );
        }
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_servers();
        }
        self.clear();
        crate::control_groups::remove_groups_of(self.path());
        // What agents lay out is read-only, folders too.
        let _ = Command::new("chmod")
            .args(["-R", "u+w"])
            .arg(self.path())
            .status();
    }
}

/// A command that runs.
pub struct Started {
    words: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Started {
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill9(&mut self) {
        // It may have ended by itself meanwhile.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it has said so far.
    #[must_use]
    pub fn out_so_far(&self) -> String {
        read(&self.out)
    }

    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(mut self, limit: Duration) -> Said {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return self.said(status);
            }
            if begin.elapsed() > limit {
                self.kill9();
                let (out, err) = (read(&self.out), read(&self.err));
                panic!(
                    "`sweep {}` did not end within {limit:?}\n-- out\n{out}\n-- err\n{err}",
                    self.words
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where its standard output goes, for output that is too large to be text.
    #[must_use]
    pub fn out_path(&self) -> PathBuf {
        self.out.clone()
    }

    fn said(&self, status: ExitStatus) -> Said {
        let large = fs::metadata(&self.out).is_ok_and(|file| file.len() > 64 << 20);
        Said {
            words: self.words.clone(),
            code: status.code(),
            out: if large {
                String::new()
            } else {
                read(&self.out)
            },
            err: read(&self.err),
        }
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// A port that nobody listens on, outside of the range that outgoing connections take theirs from: it must still be
/// free when a killed server comes back to it.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    const FIRST: u64 = 12_000;
    const MANY: u64 = 20_000;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let mixed =
            (u64::from(std::process::id()).wrapping_mul(7919)).wrapping_add(step.wrapping_mul(13));
        let port = u16::try_from(FIRST + mixed % MANY).expect("a port");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
