//! Rehearsals through the whole system, with a kit that needs no library: what is uncertain waits for them, ten ranks
//! cost two, all hosts and later sweeps share them, and whatever becomes of agents and coordinator nothing is lost that
//! cannot be asked for again. The card is simulated; the rehearsals are real processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use whole::{Agent, Coordinator, Host, Room, SOON, jobs, kill9, living, text, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits at the room's gate, then writes a stream of so many MiB as the room's file says, and a little for each rank.
const KIT: &str = r#"
import gzip, json, os, sys, time
room = os.environ["ROOM"]
if "--check" in sys.argv:
    print(json.dumps({"versions": {"torch": "9.9", "peft": None}, "kit": "fake"}))
    sys.exit(0)
with open(sys.argv[1]) as file:
    settings = json.load(file)
rank = settings["rank"]
host = os.environ["SWEEP_REHEARSAL"].split("/agents/")[1].split("/")[0]
with open(os.path.join(room, "rehearsed"), "a") as log:
    log.write(f"{host} {rank} {settings['model_config']['model_type']}\n")
while not os.path.exists(os.path.join(room, "gate")):
    time.sleep(0.02)
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

fn sweep_file(room: &Room, name: &str, ranks: &str) -> PathBuf {
    let stage = |kind: &str, more: &str| format!("[{kind}]\nrun = [\"true\"]\n{more}\n");
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[model]\nname = \"Qwen/Qwen2.5-3B-Instruct\"\nquant = \"nf4\"\n\
         [recipe]\nseq_len = 4096\ntargets = [\"q_proj\"]\nresponse_len = 64\nmemory_fixes = [\"logits_to_keep\"]\noptimizer = \"adamw_8bit\"\n[axes]\nrank = {ranks}\n{}{}",
        stage("probe", "mode = \"rehearse\""),
        stage("train", "after = \"probe\""),
    );
    room.file(&format!("{name}.toml"), &text)
}

fn card(room: &Room, usable_mib: f64) -> PathBuf {
    let text = format!(
        "time_scale = 36000\n[[host]]\nname = \"card\"\nos = \"linux\"\n[[host.device]]\nname = \"NVIDIA A10\"\n\
         backend = \"cuda\"\ntotal = \"49152 MiB\"\nusable = \"{usable_mib:.0} MiB\"\n"
    );
    room.file("fleet.toml", &text)
}

/// A card on which the closed form cannot tell whether this sweep fits.
fn doubtful_card(room: &Room, coordinator: &Coordinator, file: &Path) -> (Agent, f64) {
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

fn worker(room: &Room, coordinator: &Coordinator, name: &str) -> Agent {
    let agent = Host::new(name, 2).agent(room, &coordinator.url);
    until("it can rehearse", SOON, || {
        coordinator
            .sweep(room, &["host", "show", name, "--json"])
            .json()["rehearses"]
            == "kit fake, torch 9.9"
    });
    agent
}

fn reasons(document: &Value) -> Vec<&str> {
    jobs(document)
        .into_iter()
        .filter_map(|job| job["reason"].as_str())
        .collect()
}

fn waits(document: &Value) -> usize {
    let on = "waiting for the rehearsal of this recipe on ";
    reasons(document)
        .iter()
        .filter(|reason| reason.starts_with(on))
        .count()
}

fn rehearsed(room: &Room) -> Vec<String> {
    let mut lines = room.lines("rehearsed");
    lines.sort();
    lines
}

const TEN: &str = "[96, 97, 98, 99, 100, 101, 102, 103, 104, 105]";

#[test]
fn ten_ranks_cost_two_rehearsals_that_all_share() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let mut coordinator = room.coordinator();
    let file = sweep_file(&room, "ten", TEN);
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    let _workers = ["one", "two"].map(|name| worker(&room, &coordinator, name));
    room.file("size", &format!("{:.0}", need * 0.8));
    let sweep = coordinator.submit(&room, &file);
    until("all ten wait", SOON, || {
        waits(&coordinator.show(&room, &sweep)) == 10
    });
    let why = coordinator
        .sweep(&room, &["why", &format!("{sweep}/3/probe"), "--json"])
        .json();
    assert_eq!(
        (text(&why, "code"), &why["rehearsals"][0]["state"]),
        ("rehearsing", &Value::from("running"))
    );
    until("both hosts are at it", SOON, || {
        rehearsed(&room) == ["one 96 qwen2", "two 105 qwen2"]
    });
    room.open("gate");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    for reason in reasons(&document) {
        assert!(
            reason.contains("not needed: fits card NVIDIA A10 by replayed"),
            "{reason}"
        );
    }
    assert_eq!(rehearsed(&room).len(), 2);
    let made = &document["trials"][4]["rehearsals"];
    assert_eq!(made.as_array().map(Vec::len), Some(2), "{made:#}");
    assert_eq!(
        (&made[0]["state"], &made[0]["versions"]["torch"]),
        (&Value::from("done"), &Value::from("9.9"))
    );
    assert!(
        made[0]["doubts"][0]
            .as_str()
            .is_some_and(|doubt| doubt.contains("not compared"))
    );
    // Found again by the next coordinator, for another sweep.
    coordinator.kill9();
    coordinator.start_again();
    let other = sweep_file(&room, "other", "[64, 128]");
    let again = coordinator.submit(&room, &other);
    let document = coordinator.settled(&room, &again);
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    assert_eq!(rehearsed(&room).len(), 2, "nothing was rehearsed again");
    let plan = coordinator
        .sweep(
            &room,
            &["plan", other.to_str().expect("plain text"), "--json"],
        )
        .json();
    assert_eq!(
        plan["trials"][0]["verdicts"][0]["source"], "replayed",
        "{plan:#}"
    );
    let why = coordinator.sweep(&room, &["why", &format!("{again}/1/train")]);
    assert!(why.out.contains("rehearsed on"), "{}", why.out);
    assert_eq!(coordinator.stop(), Some(0));
    let verified = room.sweep(&[
        "--data",
        room.data().to_str().expect("plain text"),
        "coordinator",
        "verify",
        "--json",
    ]);
    let report = verified.json();
    assert_eq!(
        (&report["sound"], &report["rehearsals"]),
        (&Value::from(true), &Value::from(2))
    );
}

#[test]
fn a_kill_at_any_place_only_means_asking_again() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let mut coordinator = room.coordinator();
    let file = sweep_file(&room, "killed", "[96]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    let mut worker = worker(&room, &coordinator, "one");
    room.file("size", &format!("{:.0}", need * 0.8));
    let sweep = coordinator.submit(&room, &file);
    let rehearses = |times: usize| {
        until("it rehearses", PATIENCE, || {
            room.lines("rehearsed").len() == times && here(&room) == 1
        });
    };
    rehearses(1);
    worker.kill9();
    until("it died with its agent", SOON, || here(&room) == 0);
    worker.start();
    rehearses(2);
    coordinator.kill9();
    coordinator.start_again();
    room.open("gate");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    assert!(
        reasons(&document)[0].contains("by replayed"),
        "{document:#}"
    );
    until("nothing is left", SOON, || here(&room) == 0);
    let folder = room.data().join("agents/one/rehearsals");
    let left = std::fs::read_dir(folder).map_or(0, |entries| entries.count());
    assert_eq!(left, 0, "folders of rehearsals are left");
}

/// Rehearsals of this room that live.
fn here(room: &Room) -> usize {
    let mark = format!("SWEEP_REHEARSAL={}", room.path().display());
    living(&mark).len()
}

#[test]
fn without_a_rehearsal_the_card_is_asked() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "bad", "[96, 104]");
    let (_card, _) = doubtful_card(&room, &coordinator, &file);
    let _worker = worker(&room, &coordinator, "one");
    room.file("size", "bad");
    let sweep = coordinator.submit(&room, &file);
    until("both wait", SOON, || {
        waits(&coordinator.show(&room, &sweep)) == 2
    });
    until("it rehearses", SOON, || room.lines("rehearsed").len() == 1);
    // A kill is the host's failure and may go by; the other rank is tried meanwhile.
    for pid in living(&format!("SWEEP_REHEARSAL={}", room.path().display())) {
        kill9(pid);
    }
    until("it is tried again, or the other is", PATIENCE, || {
        room.lines("rehearsed").len() >= 2
    });
    room.open("gate");
    let document = coordinator.settled(&room, &sweep);
    let failed = &document["trials"][0]["rehearsals"];
    let said = failed.to_string();
    assert!(
        said.contains("bad_recipe: this recipe is none"),
        "{failed:#}"
    );
    for job in jobs(&document)
        .into_iter()
        .filter(|job| job["kind"] == "probe")
    {
        assert_eq!(
            job["attempts"].as_array().map(Vec::len),
            Some(1),
            "the probe goes to the card: {job:#}"
        );
    }
}

#[test]
fn a_cancelled_sweep_lets_its_rehearsal_go() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "cancelled", "[96]");
    let (_card, _) = doubtful_card(&room, &coordinator, &file);
    let _worker = worker(&room, &coordinator, "one");
    let sweep = coordinator.submit(&room, &file);
    until("it rehearses", SOON, || here(&room) == 1);
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
    until("it is ended", SOON, || here(&room) == 0);
}
