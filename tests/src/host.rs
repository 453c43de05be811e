//! A host's file, as its owner would write it: a CPU with slots, this machine's Python, the room's programs. Jobs find
//! the room in `$ROOM`. Another data folder or another environment can be given.

use std::path::PathBuf;

use crate::{Agent, Room};

#[derive(Clone)]
pub struct Host {
    pub name: String,
    pub slots: u32,
    /// The agent's `--data`; the room's if absent.
    pub data: Option<PathBuf>,
    /// The network namespace that its agent is in: see [`crate::Net::inside`].
    pub net: Option<String>,
    /// More variables for the agent's process.
    pub env: Vec<(String, String)>,
    /// More lines of its file, before the devices.
    pub more: String,
    /// Its owner names the room's programs as the kit; else the sweep's own comes to it.
    pub own_kit: bool,
    /// What `{python}` stands for.
    pub python: String,
    /// More `[[device]]` of its file.
    pub devices: String,
}

impl Host {
    #[must_use]
    pub fn new(name: &str, slots: u32) -> Self {
        Self {
            name: name.to_owned(),
            slots,
            data: None,
            net: None,
            env: Vec::new(),
            more: String::new(),
            own_kit: true,
            devices: String::new(),
            python: "python3".to_owned(),
        }
    }

    /// Writes the file; returns its path.
    pub fn write(&self, room: &Room) -> PathBuf {
        let Self {
            name,
            slots,
            more,
            devices,
            own_kit,
            python,
            ..
        } = self;
        let room_path = room.path().display();
        let kit = match own_kit {
            true => format!("kit = {:?}\n", room.path().join("kit")),
            false => String::new(),
        };
        // What hardware the test's machine has is no part of the test.
        let discover = if more.contains("recorded_devices") {
            ""
        } else {
            "discover = false\n"
        };
        let text = format!(
            "name = \"{name}\"\npython = \"{python}\"\n{kit}{discover}env = {{ ROOM = \"{room_path}\" }}\n{more}\n\
             [[device]]\nkind = \"cpu\"\nusable = \"4 GiB\"\nslots = {slots}\n{devices}\n"
        );
        room.file(&format!("{name}.host.toml"), &text)
    }

    /// Starts its agent and waits until the coordinator has taken it in.
    #[must_use]
    pub fn agent(&self, room: &Room, coordinator: &str) -> Agent {
        let mut agent = Agent::new(self, room, coordinator);
        agent.start();
        agent
    }
}
