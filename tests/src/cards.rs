//! A recording of cards that changes while an agent runs: one RTX 3070 Ti, and what Ollama holds of it. What runs on it
//! is a simulation, and marked so.

use serde_json::{Value, json};

use crate::{Agent, Coordinator, Host, Room};

pub const CARD: &str = "GPU-5b2a6f01-0000-1111-2222-333344445555";
const MIB: u64 = 1 << 20;

/// One card of 8 GiB, with so much in the hands of Ollama.
#[must_use]
pub fn card(held_mib: u64) -> Value {
    let processes = match held_mib {
        0 => json!([]),
        some => json!([{"pid": 999_999_999, "name": "ollama", "bytes": some * MIB}]),
    };
    json!({
        "id": CARD, "pci": "0000:0b:00.0", "name": "NVIDIA GeForce RTX 3070 Ti", "backend": "cuda",
        "driver": "570.133.07",
        "now": {
            "id": CARD,
            "memory": {"total": 8192 * MIB, "used": held_mib * MIB, "reserved": 192 * MIB},
            "processes": processes
        }
    })
}

pub const OTHER: &str = "GPU-77aa0b02-0000-1111-2222-333344445555";

/// A second one beside it, empty.
#[must_use]
pub fn other_card() -> Value {
    let mut other = card(0);
    (other["id"], other["now"]["id"]) = (json!(OTHER), json!(OTHER));
    other["pci"] = json!("0000:0c:00.0");
    other["name"] = json!("NVIDIA GeForce RTX 3060 Ti");
    other
}

/// So much is used, and no process has it.
#[must_use]
pub fn card_of_nobody(mib: u64) -> Value {
    let mut card = card(mib);
    card["now"]["processes"] = json!([]);
    card
}

/// A look at these cards as the recording has it, with what their driver has reported so far.
#[must_use]
pub fn look(cards: &[Value], faults: &Value) -> String {
    json!({"answered": ["cuda"], "found": cards, "faults": faults}).to_string()
}

/// What the machine shows from now on.
pub fn show(room: &Room, cards: &[Value]) {
    show_with(room, cards, &json!([]));
}

/// The same, with what its driver has reported so far.
pub fn show_with(room: &Room, cards: &[Value], faults: &Value) {
    let next = room.file("cards.next", &look(cards, faults));
    std::fs::rename(next, room.path().join("cards.json")).expect("a recording");
}

/// A host with what the recording shows; `more` are lines of its file.
#[must_use]
pub fn desk(room: &Room, more: &str) -> Host {
    desk_at(room, 36_000, more)
}

fn desk_at(room: &Room, time_scale: u32, more: &str) -> Host {
    let recorded = room.path().join("cards.json");
    Host {
        more: format!(
            "simulated = true\ntime_scale = {time_scale}\nrecorded_devices = {recorded:?}\n{more}"
        ),
        ..Host::new("desk", 1)
    }
}

#[must_use]
pub fn start(room: &Room, more: &str) -> (Coordinator, Agent) {
    start_slowly(room, 36_000, more)
}

/// So many simulated seconds in a real one. A training takes some fifty minutes.
#[must_use]
pub fn start_slowly(room: &Room, time_scale: u32, more: &str) -> (Coordinator, Agent) {
    let coordinator = room.coordinator();
    let agent = desk_at(room, time_scale, more).agent(room, &coordinator.url);
    (coordinator, agent)
}

/// The card as the coordinator knows it.
#[must_use]
pub fn device(coordinator: &Coordinator, room: &Room) -> Value {
    let host = coordinator
        .sweep(room, &["host", "show", "desk", "--json"])
        .json();
    let devices = host["devices"].as_array().cloned().unwrap_or_default();
    devices
        .into_iter()
        .find(|one| one["id"] == CARD)
        .unwrap_or_default()
}

/// Why the sweep's only training waits.
#[must_use]
pub fn why(coordinator: &Coordinator, room: &Room, sweep: &str) -> Value {
    coordinator
        .sweep(room, &["why", &format!("{sweep}/1/train"), "--json"])
        .json()
}

/// One training that needs 6000 MiB of a GPU.
#[must_use]
pub fn submit(coordinator: &Coordinator, room: &Room, name: &str) -> String {
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[train]\nrun = [\"true\"]\n[place]\ndevice = \"gpu\"\nmemory = \"6000 MiB\"\n"
    );
    coordinator.submit(room, &room.file(&format!("{name}.toml"), &text))
}
