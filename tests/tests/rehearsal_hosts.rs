//! Rehearsals and the hosts that make them: a slot of the CPU and no more, memory as the host's file allows it, cards with
//! other kernels by themselves, and streams of older versions let go of once newer ones tell the same.

mod rehearsing;

use std::path::{Path, PathBuf};

use rehearsing::{KIT, doubtful_card, here, reasons, rehearsed, sweep_file, waits, worker};
use serde_json::Value;
use whole::{Agent, Coordinator, Host, Room, SOON, until, until_some};

/// Waits for a gate of its own.
const WORK: &str = "until [ -e $ROOM/cpu-gate ]; do sleep 0.05; done";

fn cpu_sweep(room: &Room) -> PathBuf {
    let run = format!("[train]\nrun = [\"sh\", \"-c\", \"{WORK}\"]");
    room.sweep_file("cpu", "", &run)
}

fn codes(coordinator: &Coordinator, room: &Room, job: &str) -> String {
    let why = coordinator.sweep(room, &["why", job, "--json"]).json();
    why["code"].as_str().unwrap_or_default().to_owned()
}

fn able(room: &Room, coordinator: &Coordinator, host: &Host) -> Agent {
    let agent = host.agent(room, &coordinator.url);
    can(room, coordinator, &host.name, "fake");
    agent
}

fn can(room: &Room, coordinator: &Coordinator, name: &str, kit: &str) {
    until("it can rehearse", SOON, || {
        coordinator
            .sweep(room, &["host", "show", name, "--json"])
            .json()["rehearses"]
            == format!("kit {kit}, torch 9.9").as_str()
    });
}

#[test]
fn a_rehearsal_and_a_job_share_the_slots_of_the_cpu() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "slots", "[96]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    room.file("size", &format!("{:.0}", need * 0.8));
    let _worker = able(&room, &coordinator, &Host::new("one", 1));
    // The only slot is taken: nothing is rehearsed, and the job says so.
    let cpu = coordinator.submit(&room, &cpu_sweep(&room));
    until("the CPU works", SOON, || {
        codes(&coordinator, &room, &format!("{cpu}/1/train")) == "running"
    });
    let sweep = coordinator.submit(&room, &file);
    until("it waits in the queue", SOON, || {
        codes(&coordinator, &room, &format!("{sweep}/1/probe")) == "rehearsal_queued"
    });
    assert!(rehearsed(&room).is_empty());
    room.open("cpu-gate");
    coordinator.settled(&room, &cpu);
    until("now it rehearses", SOON, || here(&room) == 1);
    std::fs::remove_file(room.path().join("cpu-gate")).expect("a gate");
    // And the other way round.
    let cpu = room.sweep_file("later", "", "[train]\nrun = [\"true\"]");
    let cpu = coordinator.submit(&room, &cpu);
    until("the job waits", SOON, || {
        codes(&coordinator, &room, &format!("{cpu}/1/train")) == "busy"
    });
    assert_eq!(here(&room), 1);
    room.open("gate");
    coordinator.settled(&room, &cpu);
    coordinator.settled(&room, &sweep);
    let why = coordinator.sweep(&room, &["why", &format!("{sweep}/1/train"), "--json"]);
    let peak = &why.json()["rehearsals"][0]["peak_mib"];
    assert!(
        peak.as_f64().is_some_and(|mib| (2.0..500.0).contains(&mib)),
        "{peak}"
    );
}

/// A coordinator that was started anew takes over what its host still does: the slot is not given twice.
#[test]
fn what_an_earlier_coordinator_asked_for_goes_on() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let mut coordinator = room.coordinator();
    let file = sweep_file(&room, "anew", "[96]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    room.file("size", &format!("{:.0}", need * 0.8));
    let _worker = worker(&room, &coordinator, "one");
    let sweep = coordinator.submit(&room, &file);
    until("it rehearses", SOON, || rehearsed(&room).len() == 1);
    coordinator.kill9();
    coordinator.start_again();
    can(&room, &coordinator, "one", "fake");
    until("it waits again", SOON, || {
        waits(&coordinator.show(&room, &sweep)) == 1
    });
    assert_eq!((here(&room), rehearsed(&room).len()), (1, 1));
    room.open("gate");
    let document = coordinator.settled(&room, &sweep);
    assert!(
        reasons(&document)[0].contains("by replayed"),
        "{document:#}"
    );
    assert_eq!(rehearsed(&room).len(), 1, "it was not begun anew");
}

#[test]
fn what_was_too_large_for_a_host_goes_to_one_that_allows_more() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "memory", "[96]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    room.file("size", &format!("{:.0}", need * 0.8));
    room.open("grow");
    room.open("gate");
    let host = |name: &str, memory: &str| Host {
        more: format!("rehearsal_memory = \"{memory}\"\n"),
        ..Host::new(name, 2)
    };
    let small = ["a-small", "b-small"].map(|name| host(name, "100 MiB"));
    let _small = small.map(|host| able(&room, &coordinator, &host));
    let _large = able(&room, &coordinator, &host("c-large", "1 GiB"));
    let sweep = coordinator.submit(&room, &file);
    let job = format!("{sweep}/1/probe");
    let failed = until_some("it is out of memory", SOON, || {
        let why = coordinator.sweep(&room, &["why", &job, "--json"]).json();
        let all = why["rehearsals"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["state"] == "failed")
    });
    let error = failed["error"].as_str().expect("an error");
    assert!(
        error.contains("out of host memory") && error.contains("allows 100 MiB"),
        "{error}"
    );
    until("the large one is asked", SOON, || {
        rehearsed(&room) == ["a-small 96 qwen2 ampere", "c-large 96 qwen2 ampere"]
    });
    // It goes on there, with more than the others have.
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!((here(&room), rehearsed(&room).len()), (1, 2));
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
}

fn cards(room: &Room, names: &[(&str, &str)], usable_mib: f64) -> PathBuf {
    let mut text = "time_scale = 36000\n[[host]]\nname = \"card\"\nos = \"linux\"\n".to_owned();
    for (number, (name, backend)) in names.iter().enumerate() {
        text.push_str(&format!(
            "[[host.device]]\nid = \"sim-{number}\"\nname = \"{name}\"\nbackend = \"{backend}\"\ntotal = \"49152 MiB\"\n\
             usable = \"{usable_mib:.0} MiB\"\n"
        ));
    }
    room.file("fleet.toml", &text)
}

#[test]
fn cards_with_other_kernels_are_rehearsed_for_by_themselves() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "kernels", "[96, 100, 104]");
    let (mut first, need) = doubtful_card(&room, &coordinator, &file);
    first.stop();
    // Four generations, two of which want no stream of their own.
    let fleet = cards(
        &room,
        &[
            ("NVIDIA A10", "cuda"),
            ("NVIDIA H200", "cuda"),
            ("NVIDIA GeForce RTX 5060 Ti", "cuda"),
            ("Tesla T4", "cuda"),
            ("AMD Radeon RX 7900 XTX", "rocm"),
        ],
        need,
    );
    let _cards = Agent::of_fleet(&room, &fleet, "card", &coordinator.url);
    room.file("size", &format!("{:.0}", need * 1.5));
    room.open("gate");
    let _worker = worker(&room, &coordinator, "one");
    let sweep = coordinator.submit(&room, &file);
    until("each group has its two", SOON, || {
        rehearsed(&room).len() == 6
    });
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(
        rehearsed(&room),
        [
            "one 104 qwen2 ampere",
            "one 104 qwen2 rocm",
            "one 104 qwen2 turing",
            "one 96 qwen2 ampere",
            "one 96 qwen2 rocm",
            "one 96 qwen2 turing",
        ]
    );
    for verdict in document["trials"][1]["verdicts"]
        .as_array()
        .expect("a list")
    {
        assert_eq!(verdict["source"], "replayed", "{verdict:#}");
    }
}

fn verified(room: &Room) -> Value {
    let data = room.data();
    let data = data.to_str().expect("plain text");
    room.sweep(&["--data", data, "coordinator", "verify", "--json"])
        .json()
}

fn settles(room: &Room, coordinator: &Coordinator, file: &Path) -> Value {
    let sweep = coordinator.submit(room, file);
    coordinator.settled(room, &sweep)
}

#[test]
fn streams_of_older_versions_go_once_newer_ones_tell_the_same() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    room.open("gate");
    room.file("kit-version", "fake");
    let mut coordinator = room.coordinator();
    let file = sweep_file(&room, "before", "[96, 100, 105]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    // Too large, so that nothing is placed before its rehearsals are in.
    room.file("size", &format!("{:.0}", need * 1.5));
    let mut agent = worker(&room, &coordinator, "one");
    settles(&room, &coordinator, &file);
    assert_eq!(rehearsed(&room).len(), 2);
    // Of other ranks, by another kit: all three of before are of no use any more.
    agent.stop();
    room.file("kit-version", "newer");
    agent.start();
    can(&room, &coordinator, "one", "newer");
    std::fs::remove_file(room.path().join("gate")).expect("a gate");
    let sweep = coordinator.submit(&room, &sweep_file(&room, "after", "[96, 110]"));
    until("it is rehearsed anew", SOON, || here(&room) == 1);
    let gone = |coordinator: &Coordinator| {
        let said = coordinator.stderr();
        said.matches("a stream is let go of").count()
    };
    assert_eq!(gone(&coordinator), 0, "they may still be asked for");
    room.open("gate");
    coordinator.settled(&room, &sweep);
    assert_eq!(rehearsed(&room).len(), 4);
    until("the old ones are let go of", SOON, || {
        gone(&coordinator) == 2
    });
    let again = settles(&room, &coordinator, &sweep_file(&room, "again", "[100]"));
    let verdict = &again["trials"][0]["verdicts"][0];
    assert_eq!(verdict["source"], "replayed", "{verdict:#}");
    assert_eq!(coordinator.stop(), Some(0));
    let report = verified(&room);
    assert_eq!(
        (&report["sound"], &report["rehearsals"], &report["blobs"]),
        (&Value::from(true), &Value::from(2), &Value::from(2)),
        "{report:#}"
    );
    coordinator.start_again();
    assert_eq!(coordinator.stop(), Some(0));
}

/// Without a stage for it too: that is what a sweep gets that says nothing.
#[test]
fn a_sweep_without_a_probe_is_rehearsed_as_well() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = room.coordinator();
    let file = sweep_file(&room, "plain", "[96]");
    let (_card, need) = doubtful_card(&room, &coordinator, &file);
    room.file("size", &format!("{:.0}", need * 0.8));
    let _worker = worker(&room, &coordinator, "one");
    let text = std::fs::read_to_string(&file).expect("a sweep file");
    let at = text.find("[probe]").expect("a stage");
    let plain = format!("{}[train]\nrun = [\"true\"]\n", &text[..at]);
    // One that wants none gets none, and waits for none.
    let none = format!("{}[probe]\nmode = \"none\"\n{}", &text[..at], &plain[at..]);
    let other = coordinator.submit(&room, &room.file("none.toml", &none));
    until("it is looked at", SOON, || {
        let code = codes(&coordinator, &room, &format!("{other}/1/train"));
        code != "queued" && !code.starts_with("rehears")
    });
    assert!(rehearsed(&room).is_empty());
    coordinator.sweep(&room, &["cancel", &other]).code(0);
    let sweep = coordinator.submit(&room, &room.file("plain.toml", &plain));
    until("it waits", SOON, || {
        waits(&coordinator.show(&room, &sweep)) == 1
    });
    room.open("gate");
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(document["sweep"]["state"], "succeeded", "{document:#}");
    assert_eq!(rehearsed(&room), ["one 96 qwen2 ampere"]);
}
