//! What a service manager hears from a coordinator and an agent: ready, alive as long as they work and not when they
//! hang, stopping. The manager is a socket here; systemd itself reads the units in units.rs.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use whole::{Coordinator, Host, Room, freeze, terminate, thaw};

struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(room: &Room, name: &str) -> Self {
        let path = room.path().join(name);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Self {
            socket,
            path: path.to_str().expect("plain text").to_owned(),
        }
    }

    /// What a unit with a watchdog of 600 ms gets.
    fn environment(&self) -> Vec<(String, String)> {
        [
            ("NOTIFY_SOCKET", self.path.as_str()),
            ("WATCHDOG_USEC", "600000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// The next word; nothing within the time.
    fn hears(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).expect("a time");
        let mut bytes = [0; 512];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
    }

    fn until(&self, word: &str) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            if self.hears(Duration::from_secs(20)).as_deref() == Some(word) {
                return;
            }
        }
        panic!("never heard {word}");
    }

    fn follows(&self, pid: u32) {
        self.until("READY=1");
        for _ in 0..3 {
            self.until("WATCHDOG=1");
        }
        freeze(pid);
        while self.hears(Duration::from_millis(50)).is_some() {}
        // Twice as long as the watchdog waits.
        assert_eq!(self.hears(Duration::from_millis(1200)), None, "it hangs");
        thaw(pid);
        self.until("WATCHDOG=1");
        terminate(pid);
        self.until("STOPPING=1");
    }
}

#[test]
fn a_manager_hears_whether_a_coordinator_works() {
    let room = Room::new();
    let manager = Manager::new(&room, "manager");
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    for (name, value) in manager.environment() {
        coordinator.env(&name, &value);
    }
    coordinator.start_again();
    manager.follows(coordinator.id());
}

#[test]
fn a_manager_hears_whether_an_agent_works() {
    let room = Room::new();
    let manager = Manager::new(&room, "manager");
    let coordinator = room.coordinator();
    let host = Host {
        env: manager.environment(),
        ..Host::new("box", 1)
    };
    let agent = host.agent(&room, &coordinator.url);
    manager.follows(agent.id());
}
