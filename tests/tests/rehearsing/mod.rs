//! What tests of rehearsals have in common: a kit that needs no library, a sweep that a card is in doubt about, hosts.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whole::{Agent, Coordinator, Host, Room, SOON, jobs, living, until};

/// Waits at the room's gate, then writes a stream of so many MiB as the room's file says, and a little for each rank.
pub const KIT: &str = r#"
import gzip, json, os, sys, time
room = os.environ["ROOM"]
if "--check" in sys.argv:
    kit = "fake"
    if os.path.exists(os.path.join(room, "kit-version")):
        kit = open(os.path.join(room, "kit-version")).read()
    print(json.dumps({"versions": {"torch": "9.9", "peft": None}, "kit": kit}))
    sys.exit(0)
with open(sys.argv[1]) as file:
    settings = json.load(file)
rank = settings["rank"]
device = sys.argv[sys.argv.index("--device") + 1]
host = os.environ["SWEEP_REHEARSAL"].split("/agents/")[1].split("/")[0]
with open(os.path.join(room, "rehearsed"), "a") as log:
    log.write(f"{host} {rank} {settings['model_config']['model_type']} {device}\n")
while not os.path.exists(os.path.join(room, "gate")):
    time.sleep(0.02)
if os.path.exists(os.path.join(room, "grow")):
    held = bytearray(os.urandom(200 << 20))
    time.sleep(600)
with open(os.path.join(room, "size")) as file:
    size = file.read().strip()
if size == "bad":
    print(json.dumps({"error": "bad_recipe", "message": "this recipe is none"}))
    sys.exit(64)
mib = 2**20
lines = [f"a {int(float(size) * mib) + rank * 4096} weights", "m 1", f"a {8 * mib} x", "f 1", "m 2", "m 3", "m 4"]
with gzip.open(sys.argv[sys.argv.index("--out") + 1], "wt") as file:
    file.write("\n".join(lines) + "\n")
print(json.dumps({"seconds": 0.1, "versions": {"torch": "9.9"}, "doubts": ["torch 9.9 was not compared with a card"]}))
"#;

pub fn sweep_file(room: &Room, name: &str, ranks: &str) -> PathBuf {
    let stage = |kind: &str, more: &str| format!("[{kind}]\nrun = [\"true\"]\n{more}\n");
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[model]\nname = \"Qwen/Qwen2.5-3B-Instruct\"\nquant = \"nf4\"\n\
         [recipe]\nseq_len = 4096\ntargets = [\"q_proj\"]\nresponse_len = 64\nmemory_fixes = [\"logits_to_keep\"]\noptimizer = \"adamw_8bit\"\n[axes]\nrank = {ranks}\n{}{}",
        stage("probe", "mode = \"rehearse\""),
        stage("train", "after = \"probe\""),
    );
    room.file(&format!("{name}.toml"), &text)
}

pub fn card(room: &Room, usable_mib: f64) -> PathBuf {
    let text = format!(
        "time_scale = 36000\n[[host]]\nname = \"card\"\nos = \"linux\"\n[[host.device]]\nname = \"NVIDIA A10\"\n\
         backend = \"cuda\"\ntotal = \"49152 MiB\"\nusable = \"{usable_mib:.0} MiB\"\n"
    );
    room.file("fleet.toml", &text)
}

/// A card on which the closed form cannot tell whether this sweep fits.
pub fn doubtful_card(room: &Room, coordinator: &Coordinator, file: &Path) -> (Agent, f64) {
    let mut large = Agent::of_fleet(room, &card(room, 40960.0), "card", &coordinator.url);
    let plan = coordinator
        .sweep(
            room,
            &["plan", file.to_str().expect("plain text"), "--json"],
        )
        .json();
    let trials = plan["trials"].as_array().expect("a list");
    let verdict = &trials[trials.len() - 1]["verdicts"][0];
    assert_ne!(verdict["source"], "replayed", "{verdict:#}");
    let number = |field: &str| verdict[field].as_f64().expect("a number");
    // It would just fit, which nobody knows.
    let need = number("need_mib") + 0.6 * number("band_mib");
    large.stop();
    (
        Agent::of_fleet(room, &card(room, need), "card", &coordinator.url),
        need,
    )
}

pub fn worker(room: &Room, coordinator: &Coordinator, name: &str) -> Agent {
    let agent = Host::new(name, 2).agent(room, &coordinator.url);
    until("it can rehearse", SOON, || {
        coordinator
            .sweep(room, &["host", "show", name, "--json"])
            .json()["rehearses"]
            == "kit fake, torch 9.9"
    });
    agent
}

/// Rehearsals of this room that live, of however many processes each: Python may be started by a script.
pub fn here(room: &Room) -> usize {
    let mark = format!("SWEEP_REHEARSAL={}", room.path().display());
    let folder = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut words = environment.split(|byte| *byte == 0);
        // One that is about to end has no environment any more.
        Some(
            words
                .find(|word| word.starts_with(mark.as_bytes()))?
                .to_vec(),
        )
    };
    let folders: BTreeSet<Vec<u8>> = living(&mark).into_iter().filter_map(folder).collect();
    folders.len()
}

pub fn reasons(document: &Value) -> Vec<&str> {
    jobs(document)
        .into_iter()
        .filter_map(|job| job["reason"].as_str())
        .collect()
}

pub fn waits(document: &Value) -> usize {
    let on = "waiting for the rehearsal of this recipe on ";
    reasons(document)
        .iter()
        .filter(|reason| reason.starts_with(on))
        .count()
}

pub fn rehearsed(room: &Room) -> Vec<String> {
    let mut lines = room.lines("rehearsed");
    lines.sort();
    lines
}
