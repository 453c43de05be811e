//! Streams that attempts record on a card, through the whole system: learned once and for all cards alike, kept over
//! kills of both sides at any moment, refused with a sentence where they are no good, and never in the way of an ending.
//! The card is no card, but its attempts are real ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use whole::{
    Coordinator, Host, Random, Room, SOON, all_succeeded, attempts, text, until, until_some,
};

const KILLS: u32 = 16;

/// Writes a stream of a gibibyte and a little for its rank, then waits for the room's gate.
const WORK: &str = r#"
import gzip, os, sys, time
rank, how = int(sys.argv[1]), sys.argv[2]
lines = [f"a {(1 << 30) + rank * 4096}", "m 1", "a 8388608", "f 1", "m 2", "m 3", "m 4"]
path = os.environ["SWEEP_STREAM_FILE"]
data = gzip.compress(("\n".join(lines) + "\n").encode())
if how == "cut":
    data = data[:-12]
if how == "bomb":
    data = gzip.compress(b"\n" * (420 << 20), 1)
if how == "unfinished":
    data = gzip.compress("\n".join(lines[:3]).encode())
with open(path, "wb") as file:
    file.write(data)
with open(os.path.join(os.environ["ROOM"], "ran"), "a") as ran:
    ran.write(os.environ["SWEEP_ATTEMPT"] + "\n")
while not os.path.exists(os.path.join(os.environ["ROOM"], "gate")):
    time.sleep(0.02)
time.sleep(rank / 100)
if how == "short":
    with open(os.environ["SWEEP_REPORT"], "a") as report:
        report.write('{"memory": {"peak_allocated_mib": 1400.0}}\n')
if how == "fail":
    sys.exit(1)
"#;

fn sweep_file(room: &Room, name: &str, ranks: &str, how: &str) -> PathBuf {
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[model]\nname = \"Qwen/Qwen2.5-0.5B-Instruct\"\nquant = \"nf4\"\n[recipe]\n\
         seq_len = 512\ntargets = [\"q_proj\"]\n[axes]\nrank = {ranks}\n[train]\n\
         run = [\"{{python}}\", \"{{kit}}/work.py\", \"{{rank}}\", \"{how}\"]\n"
    );
    room.file(&format!("{name}.toml"), &text)
}

/// A host with a card that nobody looks for.
fn host() -> Host {
    let device = "[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nname = \"NVIDIA A10\"\nbackend = \"cuda\"\n\
                  usable = \"22 GiB\"\nslots = 3\n";
    Host {
        devices: device.to_owned(),
        ..Host::new("box", 2)
    }
}

/// What became of each attempt's stream, once all is said.
fn said(room: &Room, coordinator: &Coordinator, sweep: &str, attempts: usize) -> Vec<String> {
    let streams = || -> Vec<String> {
        let words = ["history", "--sweep", sweep, "--limit", "1000", "--json"];
        let history = coordinator.sweep(room, &words).json();
        let rows = history["attempts"].as_array().expect("a list");
        let known = rows.iter().filter_map(|row| row["stream"].as_str());
        known.map(str::to_owned).collect()
    };
    until_some("each stream is judged", SOON, || {
        let all = streams();
        (all.len() == attempts).then_some(all)
    })
}

fn verified(room: &Room) -> Value {
    let data = room.data();
    let data = data.to_str().expect("plain text");
    room.sweep(&["--data", data, "coordinator", "verify", "--json"])
        .json()
}

fn verdict(room: &Room, coordinator: &Coordinator, file: &Path) -> Value {
    let file = file.to_str().expect("plain text");
    let plan = coordinator.sweep(room, &["plan", file, "--json"]).json();
    plan["trials"][0]["verdicts"][0].clone()
}

#[test]
fn two_recorded_ranks_tell_a_third_also_after_a_restart() {
    let room = Room::new();
    room.program("work.py", WORK);
    let mut coordinator = room.coordinator();
    let _agent = host().agent(&room, &coordinator.url);
    room.open("gate");
    let sweep = coordinator.submit(&room, &sweep_file(&room, "two", "[8, 16]", "well"));
    all_succeeded(&coordinator.settled(&room, &sweep));
    for note in said(&room, &coordinator, &sweep, 2) {
        assert!(
            note.starts_with("its stream is learned: train at rank ")
                && note.contains("NVIDIA A10 (kernels as on ampere), 1032 MiB"),
            "{note}"
        );
    }
    let third = sweep_file(&room, "third", "[12]", "well");
    let told = |coordinator: &Coordinator| {
        let verdict = verdict(&room, coordinator, &third);
        assert_eq!(verdict["source"], "replayed", "{verdict:#}");
        let term = &verdict["terms"][0];
        assert_eq!(text(term, "name"), "peak of the recorded streams, scaled");
    };
    told(&coordinator);
    coordinator.kill9();
    coordinator.start_again();
    told(&coordinator);
    let again = coordinator.submit(&room, &third);
    let document = coordinator.settled(&room, &again);
    let named = &document["trials"][0]["rehearsals"][0];
    assert_eq!(
        (
            text(named, "state"),
            text(named, "attempt").contains("/train/1")
        ),
        ("recorded", true),
        "{document:#}"
    );
    said(&room, &coordinator, &again, 1);
    // The same recipe again has one stream, the newest, and its blob.
    let newer = coordinator.submit(&room, &sweep_file(&room, "newer", "[8, 16]", "well"));
    coordinator.settled(&room, &newer);
    said(&room, &coordinator, &newer, 2);
    assert_eq!(coordinator.stop(), Some(0));
    let report = verified(&room);
    // Where the binary lies in a checkout its kit travels, and the list of its files is a blob, one for all sweeps.
    let lists = i32::from(report["files"] != 0);
    assert_eq!(
        (&report["sound"], &report["rehearsals"], &report["blobs"]),
        (&Value::from(true), &Value::from(3), &Value::from(3 + lists)),
        "{report:#}"
    );
}

#[test]
fn what_is_no_good_is_refused_and_the_attempt_ends_as_it_does() {
    let room = Room::new();
    room.program("work.py", WORK);
    let coordinator = room.coordinator();
    let _agent = host().agent(&room, &coordinator.url);
    room.open("gate");
    for (how, state, says) in [
        ("cut", "succeeded", "unpack the stream"),
        ("bomb", "succeeded", "unfolds to more than 400 MiB"),
        (
            "unfinished",
            "succeeded",
            "from mark 1, before the step, to mark 4",
        ),
        (
            "short",
            "succeeded",
            "1032 MiB at its peak, and 1400 MiB were measured",
        ),
        ("fail", "failed", "its attempt ended failed"),
    ] {
        let file = sweep_file(&room, how, "[8]", how);
        let sweep = coordinator.submit(&room, &file);
        let document = coordinator.settled(&room, &sweep);
        assert_eq!(document["sweep"]["state"], state, "{how}");
        let note = said(&room, &coordinator, &sweep, 1).remove(0);
        assert!(
            note.starts_with("its stream is not used: ") && note.contains(says),
            "{how}: {note}"
        );
    }
    let verdict = verdict(
        &room,
        &coordinator,
        &sweep_file(&room, "asked", "[16]", "well"),
    );
    assert_ne!(verdict["source"], "replayed", "nothing of it was learned");
}

/// Both die again and again while attempts end and their streams are on the way.
#[test]
fn kills_at_any_moment_lose_no_stream_and_repeat_none() {
    let room = Room::new();
    let mut random = Random::seeded();
    room.program("work.py", WORK);
    let mut coordinator = room.coordinator();
    let mut agent = host().agent(&room, &coordinator.url);
    let file = sweep_file(
        &room,
        "killed",
        "[1, 10, 20, 30, 40, 50, 60, 70, 80, 90]",
        "well",
    );
    let sweep = coordinator.submit(&room, &file);
    until("some run", SOON, || room.lines("ran").len() >= 3);
    room.open("gate");
    for round in 0..KILLS {
        random.moment(Duration::from_millis(400));
        if round % 2 == 0 {
            coordinator.kill9();
            random.moment(Duration::from_millis(100));
            coordinator.start_again();
        } else {
            agent.kill9();
            random.moment(Duration::from_millis(100));
            agent.start();
        }
    }
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    // An agent that dies between taking an order and starting it leaves an attempt that is tried again; no program
    // runs twice for all that.
    let mut all = attempts(&document);
    all.retain(|one| text(one, "outcome") != "succeeded");
    for one in all {
        assert_eq!(text(one, "outcome"), "interrupted", "{one:#}");
        assert!(text(one, "detail").contains("nothing of it ran"), "{one:#}");
    }
    assert_eq!(room.lines("ran").len(), 10, "each program ran once");
    for note in said(&room, &coordinator, &sweep, 10) {
        assert!(note.starts_with("its stream is learned"), "{note}");
    }
    assert_eq!(coordinator.stop(), Some(0));
    let report = verified(&room);
    assert_eq!(
        (&report["sound"], &report["rehearsals"]),
        (&Value::from(true), &Value::from(10)),
        "{report:#}"
    );
}
