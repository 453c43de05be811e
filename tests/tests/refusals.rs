//! What is refused, with which exit code and which words: 2 for bad input, 3 for a coordinator that is not there,
//! 4 for what is not allowed. Nothing half-done stays behind.

use whole::{Coordinator, Host, Room};

#[test]
fn the_second_coordinator_on_a_folder_is_refused() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let data = coordinator.data.to_str().expect("plain text");
    let second = room.sweep(&[
        "--data",
        data,
        "coordinator",
        "run",
        "--listen",
        "127.0.0.1:0",
    ]);
    let holder = format!("process {}", coordinator.id());
    second.code(4).says(&[data, &holder, "is using it"]);
    assert_eq!(second.out, "", "it must not say that it is ready");
    for verb in [&["coordinator", "compact"][..], &["coordinator", "verify"]] {
        let said = room.sweep(&[&["--data", data], verb].concat());
        said.code(4).says(&[&holder]);
    }
    // The first one has not noticed.
    coordinator.sweep(&room, &["list", "--json"]).json();
}

#[test]
fn after_a_kill_the_folder_is_free_again() {
    let room = Room::new();
    let mut first = room.coordinator();
    let mut second = Coordinator::prepared(&room, &first.data);
    first.kill9();
    second.start_again();
}

#[test]
fn only_loopback_is_listened_on() {
    let room = Room::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7480"] {
        let said = room.sweep(&["--data", "data", "coordinator", "run", "--listen", address]);
        said.code(4).says(&["loopback", address]);
        assert!(
            !room.data().join("store").exists(),
            "it began to work before it refused"
        );
    }
}

#[test]
fn a_coordinator_that_is_not_there() {
    let room = Room::new();
    let file = room.sweep_file("alone", "", "[train]\nrun = [\"true\"]");
    let file = file.to_str().expect("plain text");
    // Port 1 is never listened on.
    let url = "http://127.0.0.1:1";
    for words in [
        &["submit", file][..],
        &["list"],
        &["show", "x"],
        &["watch", "x"],
        &["history"],
        &["cancel", "x"],
    ] {
        let said = room.sweep(&[&["--coordinator", url], words].concat());
        said.code(3).says(&[url]);
        assert_eq!(said.out, "", "sweep {}", words.join(" "));
    }
    let said = room.sweep(&["--coordinator", url, "--json", "list"]);
    let error: serde_json::Value =
        serde_json::from_str(&said.code(3).err).expect("the error as JSON");
    assert_eq!(
        (
            error["error"]["code"].as_str(),
            error["error"]["exit"].as_i64()
        ),
        (Some("unreachable"), Some(3))
    );
}

#[test]
fn a_broken_sweep_file_is_shown_with_its_place_and_nothing_is_stored() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let text = "[sweep]\nname = \"broken\"\n\n[train]\nrun = [\"true\"]\ntime_limt = \"1h\"\n";
    let file = room.file("broken.toml", text);
    let file = file.to_str().expect("plain text");
    let data = room.data();
    let data = data.to_str().expect("plain text");
    for words in [&["submit", file][..], &["plan", file], &["check", file]] {
        let said = coordinator.sweep(&room, words);
        said.code(2)
            .says(&["broken.toml", "6", "time_limt", "time_limit", "^"]);
    }
    room.sweep(&["--data", data, "check", file]).code(2);
    assert_eq!(
        coordinator.sweep(&room, &["list", "--json"]).json()["sweeps"],
        serde_json::json!([])
    );

    let fresh = room.path().join("fresh");
    room.sweep(&["--data", fresh.to_str().expect("plain text"), "run", file])
        .code(2);
    assert!(!fresh.exists(), "a run that was refused has left a folder");
}

#[test]
fn words_that_mean_nothing() {
    let room = Room::new();
    let coordinator = room.coordinator();
    for words in [
        &["show", "no-such-sweep"][..],
        &["logs", "no-such/1/train"],
        &["why", "nonsense"],
        &["host", "show", "x"],
    ] {
        let said = coordinator.sweep(&room, words);
        said.code(2);
        assert!(
            said.err.len() > 10,
            "`sweep {}` says only {:?}",
            words.join(" "),
            said.err
        );
    }
    room.sweep(&["no-such-verb"]).code(2);
    room.sweep(&["--data", "data", "submit", "no-such-file.toml"])
        .code(2)
        .says(&["no-such-file.toml"]);
}

#[test]
fn two_agents_with_one_name_or_one_folder() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let _first = room.agent("box", 1, &coordinator.url);
    // The same folder: two would adopt and report the same attempts.
    let mut same_folder = whole::Agent::new(&Host::new("box", 1), &room, &coordinator.url);
    let code = same_folder.start_in_vain();
    assert!(matches!(code, Some(1 | 4)), "{code:?}");
    assert!(
        same_folder.stderr().contains("another agent works on"),
        "{}",
        same_folder.stderr()
    );
}

#[test]
fn a_trial_or_job_that_is_not_there_is_bad_input() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let file = room.sweep_file("few", "n = [1, 2]", "[train]\nrun = [\"true\"]");
    let sweep = coordinator.submit(&room, &file);
    for verb in ["cancel", "retry"] {
        let said = coordinator.sweep(&room, &[verb, &format!("{sweep}/9")]);
        said.code(2).says(&["2 trials", "no trial 9"]);
        let said = coordinator.sweep(&room, &[verb, &format!("{sweep}/1/bake")]);
        said.code(2).says(&["no bake job"]);
    }
    let document = coordinator.show(&room, &sweep);
    assert_eq!(document["sweep"]["state"], "waiting", "{document:#}");
}
