//! Rehearsals through the whole system, with a kit that needs no library: what is uncertain waits for them, ten ranks
//! cost two, all hosts and later sweeps share them, and whatever becomes of agents and coordinator nothing is lost that
//! cannot be asked for again. The card is simulated; the rehearsals are real processes.

mod rehearsing;

use std::time::Duration;

use rehearsing::{KIT, doubtful_card, here, reasons, rehearsed, sweep_file, waits, worker};
use serde_json::Value;
use whole::{Room, SOON, jobs, kill9, living, text, until};

const PATIENCE: Duration = Duration::from_secs(60);

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
        rehearsed(&room) == ["one 96 qwen2 ampere", "two 105 qwen2 ampere"]
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
