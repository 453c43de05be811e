//! Cards as a recording shows them, which changes while everything runs: memory that others take holds a job back and
//! says who they are, a card that is gone holds it back too, and each starts when it is over. No GPU is needed, and what
//! runs is a simulation, marked so.

use serde_json::{Value, json};
use whole::{Agent, Coordinator, Host, Room, SOON, attempts, until};

const CARD: &str = "GPU-5b2a6f01-0000-1111-2222-333344445555";
const MIB: u64 = 1 << 20;

/// One card of 8 GiB, with so much in the hands of Ollama.
fn card(held_mib: u64) -> Value {
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

/// What the machine shows from now on.
fn show(room: &Room, cards: &[Value]) {
    let text = json!({"answered": ["cuda"], "found": cards}).to_string();
    let next = room.file("cards.next", &text);
    std::fs::rename(next, room.path().join("cards.json")).expect("a recording");
}

fn host(room: &Room, more: &str) -> Host {
    let recorded = room.path().join("cards.json");
    Host {
        more: format!(
            "simulated = true\ntime_scale = 36000\nrecorded_devices = {recorded:?}\n{more}"
        ),
        ..Host::new("desk", 1)
    }
}

fn start(room: &Room, more: &str) -> (Coordinator, Agent) {
    let coordinator = room.coordinator();
    let agent = host(room, more).agent(room, &coordinator.url);
    (coordinator, agent)
}

fn device(coordinator: &Coordinator, room: &Room) -> Value {
    let host = coordinator
        .sweep(room, &["host", "show", "desk", "--json"])
        .json();
    let devices = host["devices"].as_array().cloned().unwrap_or_default();
    devices
        .into_iter()
        .find(|one| one["id"] == CARD)
        .unwrap_or_default()
}

fn why(coordinator: &Coordinator, room: &Room, sweep: &str) -> Value {
    coordinator
        .sweep(room, &["why", &format!("{sweep}/1/train"), "--json"])
        .json()
}

fn submit(coordinator: &Coordinator, room: &Room, name: &str) -> String {
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[train]\nrun = [\"true\"]\n[place]\ndevice = \"gpu\"\nmemory = \"6000 MiB\"\n"
    );
    coordinator.submit(room, &room.file(&format!("{name}.toml"), &text))
}

#[test]
fn a_job_waits_for_what_others_hold_and_starts_when_it_is_free() {
    let room = Room::new();
    show(&room, &[card(0)]);
    let (coordinator, _agent) = start(&room, "");
    let free = device(&coordinator, &room);
    assert_eq!(
        (&free["usable_mib"], &free["held_mib"]),
        (&json!(8000.0), &json!(0.0)),
        "{free:#}"
    );
    assert_eq!(
        free["simulated"], true,
        "a recorded card is never shown as a real one"
    );
    assert_eq!(free["about"], "0000:0b:00.0, driver 570.133.07");
    show(&room, &[card(5120)]);
    until("the coordinator knows", SOON, || {
        device(&coordinator, &room)["held_mib"] == 5120.0
    });
    let sweep = submit(&coordinator, &room, "held");
    until("it waits for them", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "held_by_others"
    });
    let said = why(&coordinator, &room, &sweep);
    let reason = said["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("others hold 5120 of 8000 MiB (Ollama 5120 MiB)"),
        "{reason}"
    );
    assert!(
        attempts(&coordinator.show(&room, &sweep)).is_empty(),
        "it was held back, not tried"
    );
    show(&room, &[card(0)]);
    let document = coordinator.settled(&room, &sweep);
    let all = attempts(&document);
    assert_eq!(all.len(), 1, "{document:#}");
    assert_eq!(all[0]["outcome"], "succeeded", "{document:#}");
    assert_eq!(all[0]["simulated"], true);
}

#[test]
fn a_card_that_is_gone_is_said_and_its_jobs_wait_for_it() {
    let room = Room::new();
    show(&room, &[card(0)]);
    let (coordinator, _agent) = start(&room, "expect = 2\n");
    let shown = coordinator
        .sweep(&room, &["host", "show", "desk", "--json"])
        .json();
    assert!(
        shown["degraded"][0]
            .as_str()
            .is_some_and(|what| what.contains("2 GPUs are expected and 1 are there")),
        "{shown:#}"
    );
    show(&room, &[]);
    until("the coordinator knows", SOON, || {
        device(&coordinator, &room)["missing"].is_string()
    });
    let sweep = submit(&coordinator, &room, "gone");
    until("it waits for the card", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "missing"
    });
    let said = why(&coordinator, &room, &sweep);
    assert!(
        said["reason"]
            .as_str()
            .is_some_and(|why| why.contains("fallen off the bus")),
        "{said:#}"
    );
    show(&room, &[card(0)]);
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );
    assert!(device(&coordinator, &room)["missing"].is_null());
}

/// What is known when the agent returns is what is true then, not what was true when it went.
#[test]
fn nothing_is_placed_on_what_was_free_before_the_agent_came_back() {
    let room = Room::new();
    show(&room, &[card(0)]);
    let (coordinator, mut agent) = start(&room, "");
    agent.kill9();
    show(&room, &[card(5120)]);
    let sweep = submit(&coordinator, &room, "back");
    agent.start();
    until("it waits for them", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "held_by_others"
    });
    assert!(attempts(&coordinator.show(&room, &sweep)).is_empty());
}

#[test]
fn a_recording_is_shown_as_what_it_is_of() {
    let room = Room::new();
    show(&room, &[card(512)]);
    let recorded = room.path().join("cards.json");
    let words = [
        "agent",
        "devices",
        "--recorded",
        recorded.to_str().expect("plain text"),
    ];
    let said = room.sweep(&words);
    assert!(
        said.out.contains("process 999999999 ollama: 512 MiB"),
        "{said:?}"
    );
    let again = room.sweep(&[&words[..], &["--json"]].concat()).json();
    assert_eq!(again["found"][0]["id"], CARD);
}
