//! Cards as a recording shows them, which changes while everything runs: memory that others take holds a job back and
//! says who they are, a card that is gone holds it back too, and each starts when it is over. No GPU is needed, and what
//! runs is a simulation, marked so.

use serde_json::{Value, json};
use whole::cards::{
    CARD, OTHER, card, card_of_nobody, device, other_card, show, show_with, start, start_slowly,
    submit, why,
};
use whole::{Coordinator, Host, Room, SOON, all_succeeded, attempt_processes, attempts, until};

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

/// A sweep of two trainings, one on each card; the attempts by the card that they are on.
fn on_both_cards(coordinator: &Coordinator, room: &Room) -> (String, [String; 2]) {
    let text = "[sweep]\nname = \"both\"\n[axes]\nn = [1, 2]\n[train]\nrun = [\"true\", \"{n}\"]\n[place]\ndevice = \"gpu\"\n\
        memory = \"6000 MiB\"\n[retry]\ngpu_fault = 0\n";
    let sweep = coordinator.submit(room, &room.file("both.toml", text));
    let mut ids = Vec::new();
    until("both run", SOON, || {
        let document = coordinator.show(room, &sweep);
        let of = |card: &str| -> Option<String> {
            let all = attempts(&document);
            let on = |one: &&&Value| {
                one["device"]
                    .as_str()
                    .is_some_and(|device| device.contains(card))
            };
            Some(all.iter().find(on)?["id"].as_str()?.to_owned())
        };
        ids = ["3070", "3060"].into_iter().filter_map(of).collect();
        ids.len() == 2 && ids.iter().all(|id| !attempt_processes(id).is_empty())
    });
    (sweep, [ids[0].clone(), ids[1].clone()])
}

/// The one on the broken card has ended so; the other goes on to its end.
#[track_caller]
fn one_failed_and_one_went_on(document: &Value, broken: &str, words: &[&str]) {
    for attempt in attempts(document) {
        if attempt["id"] != broken {
            assert_eq!(attempt["outcome"], "succeeded", "{document:#}");
            continue;
        }
        assert_eq!(attempt["outcome"], "gpu_fault", "{document:#}");
        let detail = attempt["detail"].as_str().expect("a sentence");
        for word in words {
            assert!(detail.contains(word), "no `{word}` in: {detail}");
        }
    }
    assert_eq!(attempts(document).len(), 2, "{document:#}");
}

#[test]
fn a_fault_that_takes_the_card_ends_its_attempt_and_no_other() {
    let room = Room::new();
    show(&room, &[card(0), other_card()]);
    // Half a minute.
    let (coordinator, agent) = start_slowly(&room, 120, "");
    let (sweep, [broken, _]) = on_both_cards(&coordinator, &room);
    // A program's own fault, on the other card: nothing is ended for it.
    let mild = json!({"id": OTHER, "code": 31, "what": "Xid 31: a program's own fault"});
    let fatal = json!({"id": CARD, "code": 79, "what": "Xid 79: the card has fallen off the bus"});
    show_with(&room, &[card(0), other_card()], &json!([mild, fatal]));
    until("it has ended", SOON, || {
        attempt_processes(&broken).is_empty()
    });
    let document = coordinator.settled(&room, &sweep);
    one_failed_and_one_went_on(&document, &broken, &["Xid 79", "fallen off the bus"]);
    assert!(
        agent.stderr().contains("the driver reports Xid 31"),
        "{}",
        agent.stderr()
    );
}

#[test]
fn a_card_that_vanishes_ends_its_attempt_and_no_other_also_after_a_restart() {
    let room = Room::new();
    show(&room, &[card(0), other_card()]);
    let (coordinator, mut agent) = start_slowly(&room, 120, "");
    let (sweep, [broken, _]) = on_both_cards(&coordinator, &room);
    // Which attempt has which card outlives the agent.
    agent.kill9();
    agent.start();
    until("the agent has seen the card", SOON, || {
        device(&coordinator, &room)["missing"].is_null()
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    show(&room, &[other_card()]);
    until("it has ended", SOON, || {
        attempt_processes(&broken).is_empty()
    });
    let document = coordinator.settled(&room, &sweep);
    one_failed_and_one_went_on(&document, &broken, &["it fell off the bus", "dmesg"]);
    assert!(device(&coordinator, &room)["missing"].is_string());
}

#[test]
fn memory_that_does_not_come_back_is_said_and_the_next_job_waits_for_it() {
    let room = Room::new();
    show(&room, &[card(0)]);
    // Five seconds.
    let (coordinator, agent) = start_slowly(&room, 600, "");
    let first = submit(&coordinator, &room, "first");
    until("it runs", SOON, || {
        !attempt_processes(&format!("{first}/1/train/1")).is_empty()
    });
    show(&room, &[card_of_nobody(5120)]);
    let document = coordinator.settled(&room, &first);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );
    let said = "5120 MiB that no process is known to have, since an attempt ended";
    until("the host says it", SOON, || {
        device(&coordinator, &room)["holders"] == said
    });
    let shown = coordinator.sweep(&room, &["hosts"]).out;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(said), "{shown}");
    assert!(
        agent.stderr().contains("held by 5120 MiB"),
        "{}",
        agent.stderr()
    );
    let second = submit(&coordinator, &room, "second");
    until("it waits for what is free", SOON, || {
        why(&coordinator, &room, &second)["code"] == "held_by_others"
    });
    assert!(attempts(&coordinator.show(&room, &second)).is_empty());
    show(&room, &[card(0)]);
    let document = coordinator.settled(&room, &second);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );
    assert!(
        agent.stderr().contains("its memory came back"),
        "{}",
        agent.stderr()
    );
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

/// A host whose interpreter is gone would let a whole night's jobs fail one after the other.
#[test]
fn a_host_whose_python_is_not_there_gets_no_job_until_it_is() {
    let room = Room::new();
    room.program("job.sh", "exec \"$1\" -c 'print(1)'\n");
    let python = room.path().join("python");
    let coordinator = room.coordinator();
    let host = Host {
        python: python.display().to_string(),
        ..Host::new("box", 1)
    };
    let _agent = host.agent(&room, &coordinator.url);
    let file = room.sweep_file(
        "lame",
        "",
        "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{python}\"]",
    );
    let sweep = coordinator.submit(&room, &file);
    until("it waits", SOON, || {
        why(&coordinator, &room, &sweep)["code"] == "missing"
    });
    let said = why(&coordinator, &room, &sweep);
    assert!(
        said["reason"]
            .as_str()
            .is_some_and(|why| why.contains("does not exist: make the environment")),
        "{said:#}"
    );
    std::os::unix::fs::symlink("/usr/bin/python3", &python).expect("an interpreter");
    all_succeeded(&coordinator.settled(&room, &sweep));
}
