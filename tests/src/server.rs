//! The long-running processes: a coordinator and agents. Each can be killed and started again with the same words; it
//! is ready when it has printed its line.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::binary::sweep_in;
use crate::room::{Started, free_port};
use crate::{Host, Room, Said, kill9, terminate, until};

const READY: Duration = Duration::from_secs(60);
const GOODBYE: Duration = Duration::from_secs(30);

/// One process and the words that start it.
struct Server {
    words: Vec<String>,
    env: Vec<(String, String)>,
    net: Option<String>,
    room: PathBuf,
    stderr: PathBuf,
    child: Option<Child>,
}

impl Server {
    fn new(room: &Room, name: &str, words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            net: None,
            room: room.path().to_owned(),
            stderr: room.path().join(format!("{name}.stderr")),
            child: None,
        }
    }

    fn command(&self) -> Command {
        let mut command = sweep_in(self.net.as_deref());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.stderr)
            .expect("a log");
        command
            .args(&self.words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        for name in crate::room::HIDDEN {
            command.env_remove(name);
        }
        command
            .env("HOME", &self.room)
            .env("SWEEP_TEST_ROOM", &self.room);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.room);
        command
    }

    /// Starts it; its first line, or nothing when it ended without one.
    fn start(&mut self) -> Option<String> {
        let mut child = self.command().spawn().expect("sweep can be started");
        let lines = lines(&mut child);
        self.child = Some(child);
        match lines.recv_timeout(READY) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("`sweep {}` is not ready", self.words.join(" "))
            }
        }
    }

    fn start_ready(&mut self) -> String {
        let words = self.words.join(" ");
        self.start()
            .unwrap_or_else(|| panic!("`sweep {words}` ended before it was ready"))
    }

    fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill9(child.id());
            child.wait().expect("a child");
        }
    }

    /// Asks it to end (SIGTERM); its exit code.
    fn stop(&mut self) -> Option<i32> {
        terminate(self.id());
        self.wait()
    }

    /// Its exit code, once it has ended.
    fn wait(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it runs");
        let mut code = None;
        until("the server ends", GOODBYE, || {
            match child.try_wait().expect("a child") {
                Some(status) => {
                    code = status.code();
                    true
                }
                None => false,
            }
        });
        code
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Its lines as they come. They are read to the end, or the server would one day wait for its reader.
fn lines(child: &mut Child) -> Receiver<String> {
    let stdout = child.stdout.take().expect("a pipe");
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

pub struct Coordinator {
    server: Server,
    pub url: String,
    pub data: PathBuf,
}

impl Coordinator {
    pub(crate) fn start(room: &Room) -> Self {
        let mut coordinator = Self::prepared(room, &room.data());
        coordinator.start_again();
        coordinator
    }

    /// Not started yet.
    #[must_use]
    pub fn prepared(room: &Room, data: &Path) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let folder = data.to_str().expect("plain text");
        let words = ["--data", folder, "coordinator", "run", "--listen", &address];
        Self {
            server: Server::new(room, "coordinator", &words),
            url: format!("http://{address}"),
            data: data.to_owned(),
        }
    }

    /// Not started yet; in this network namespace, on all its addresses, over TLS.
    #[must_use]
    pub fn inside(room: &Room, data: &Path, net: &str) -> Self {
        let mut coordinator = Self::prepared(room, data);
        coordinator.server.net = Some(net.to_owned());
        coordinator.url = "https://127.0.0.1:7480".to_owned();
        if let Some(address) = coordinator.server.words.last_mut() {
            *address = "0.0.0.0:7480".to_owned();
        }
        coordinator
    }

    /// More words after `coordinator run`, from the next start on.
    pub fn words(&mut self, words: &[&str]) {
        self.server
            .words
            .extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// A variable for its process, from the next start on.
    pub fn env(&mut self, name: &str, value: &str) {
        self.server.env.push((name.to_owned(), value.to_owned()));
    }

    /// On the same folder and the same port.
    pub fn start_again(&mut self) {
        let line = self.server.start_ready();
        assert!(
            line.contains(&self.url),
            "the ready line names no {}: {line}",
            self.url
        );
    }

    pub fn kill9(&mut self) {
        self.server.kill9();
    }

    /// Ends it as a service manager would; its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.server.stop()
    }

    /// Waits until it ends by itself; its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.server.wait()
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// All that it has said on its standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.server.stderr()
    }

    /// `sweep --coordinator URL WORDS`, to its end.
    #[track_caller]
    pub fn sweep(&self, room: &Room, words: &[&str]) -> Said {
        room.sweep(&[&["--coordinator", &self.url], words].concat())
    }

    /// The same, started only.
    #[must_use]
    pub fn start_sweep(&self, room: &Room, words: &[&str]) -> Started {
        room.start(&[&["--coordinator", &self.url], words].concat())
    }

    /// Submits; the sweep's id.
    #[track_caller]
    pub fn submit(&self, room: &Room, file: &Path) -> String {
        self.sweep(room, &["submit", file.to_str().expect("plain text")])
            .word()
    }

    /// The whole document of a sweep.
    #[track_caller]
    pub fn show(&self, room: &Room, sweep: &str) -> serde_json::Value {
        self.sweep(room, &["show", sweep, "--json"]).json()
    }

    /// Follows the sweep to its end; then its document.
    #[track_caller]
    pub fn settled(&self, room: &Room, sweep: &str) -> serde_json::Value {
        let said = self.sweep(room, &["watch", sweep, "--json"]);
        assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
        said.document()
    }
}

pub struct Agent {
    server: Server,
    pub host: Host,
    data: PathBuf,
}

impl Agent {
    /// Not started yet.
    #[must_use]
    pub fn new(host: &Host, room: &Room, coordinator: &str) -> Self {
        let data = host.data.clone().unwrap_or_else(|| room.data());
        let (folder, file) = (data.to_str().expect("plain text"), host.write(room));
        let file = file.to_str().expect("plain text");
        let words = [
            "--data",
            folder,
            "agent",
            "run",
            "--config",
            file,
            "--coordinator",
            coordinator,
        ];
        let mut server = Server::new(room, &host.name, &words);
        server.env.clone_from(&host.env);
        server.net.clone_from(&host.net);
        Self {
            server,
            host: host.clone(),
            data,
        }
    }

    /// A simulated host of a fleet file.
    #[must_use]
    pub fn of_fleet(room: &Room, fleet: &Path, name: &str, coordinator: &str) -> Self {
        let (data, fleet) = (room.data(), fleet.to_str().expect("plain text"));
        let folder = data.to_str().expect("plain text");
        let words = [
            "--data",
            folder,
            "agent",
            "run",
            "--fleet",
            fleet,
            "--host",
            name,
            "--coordinator",
            coordinator,
        ];
        let mut agent = Self {
            server: Server::new(room, name, &words),
            host: Host::new(name, 1),
            data,
        };
        agent.start();
        agent
    }

    /// Until it is ready: the coordinator has taken it in.
    pub fn start(&mut self) {
        let line = self.server.start_ready();
        assert!(
            line.contains(&self.host.name),
            "the ready line names no host: {line}"
        );
    }

    /// Stops its process where it is; its connections stand.
    pub fn freeze(&self) {
        crate::processes::freeze(self.server.id());
    }

    pub fn thaw(&self) {
        crate::processes::thaw(self.server.id());
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    pub fn kill9(&mut self) {
        self.server.kill9();
    }

    pub fn stop(&mut self) -> Option<i32> {
        self.server.stop()
    }

    /// Starts it, and waits for nothing.
    pub fn launch(&mut self) {
        let mut child = self.server.command().spawn().expect("sweep can be started");
        drop(lines(&mut child));
        self.server.child = Some(child);
    }

    /// Its exit code, once it has ended by itself.
    pub fn ends(&mut self) -> Option<i32> {
        self.server.wait()
    }

    /// Starts it although it cannot become ready; its exit code.
    pub fn start_in_vain(&mut self) -> Option<i32> {
        assert_eq!(self.server.start(), None, "it became ready");
        self.server.wait()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        self.server.stderr()
    }

    /// The folder of one of its attempts.
    #[must_use]
    pub fn attempt(&self, id: &str) -> PathBuf {
        self.data
            .join("agents")
            .join(&self.host.name)
            .join("attempts")
            .join(id)
    }
}
