//! The care of the store through the command line: backup, restore, verify, compact. What comes back is what was
//! there, to the last document and log; damage is found and named; nothing is overwritten.

use std::path::Path;

use serde_json::Value;
use whole::{Coordinator, Host, Room, SOON, all_succeeded, attempt_processes, until};

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain text")
}

/// A folder in which two sweeps have run, one of them with a file that is large enough to lie beside the store.
fn filled(room: &Room) -> Coordinator {
    room.program("job.sh", "echo \"log of $1\"\nprintf '{\"result\": {\"n\": %s}}\\n' $1 >> \"$SWEEP_REPORT\"\n[ $1 != 3 ]\n");
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";
    let long = format!(
        "{run}\n{}",
        "# a word from the author, kept with the sweep\n".repeat(300)
    );
    let files = [
        room.sweep_file("short", "n = [1, 2, 3]", run),
        room.sweep_file("long", "n = [4, 5]", &long),
    ];
    let coordinator = room.coordinator();
    let agent = room.agent("box", 2, &coordinator.url);
    for file in &files {
        let sweep = coordinator.submit(room, file);
        coordinator.settled(room, &sweep);
    }
    drop(agent);
    coordinator
}

/// Everything that can be asked of a folder.
fn all(room: &Room, data: &Path) -> Vec<Value> {
    let ask = |words: &[&str]| {
        room.sweep(&[&["--data", plain(data)], words, &["--json"]].concat())
            .json()
    };
    let mut documents = vec![ask(&["history"]), ask(&["list"]), ask(&["hosts"])];
    for sweep in ["short", "long"] {
        documents.push(ask(&["show", sweep]));
        documents.push(ask(&["results", sweep]));
    }
    for attempt in documents[0]["attempts"].as_array().expect("a list").clone() {
        let id = attempt["id"].as_str().expect("an id");
        let log = ask(&["logs", id]);
        assert!(
            log["attempts"][0]["log"]
                .as_str()
                .is_some_and(|log| log.starts_with("log of ")),
            "{log:#}"
        );
        documents.push(log);
    }
    documents
}

#[test]
fn a_backup_brings_everything_back() {
    let room = Room::new();
    let mut coordinator = filled(&room);
    let (data, backup, restored) = (
        room.data(),
        room.path().join("backup"),
        room.path().join("restored"),
    );
    assert_eq!(coordinator.stop(), Some(0));
    let before = all(&room, &data);
    assert_eq!(before[0]["attempts"].as_array().map(Vec::len), Some(5));

    let said = room
        .sweep(&[
            "--data",
            plain(&data),
            "coordinator",
            "backup",
            plain(&backup),
            "--json",
        ])
        .json();
    assert!(
        said["records"].as_u64() > Some(0) && said["blobs"].as_u64() > Some(0),
        "{said:#}"
    );
    room.sweep(&[
        "--data",
        plain(&restored),
        "coordinator",
        "restore",
        plain(&backup),
    ])
    .code(0);
    assert_eq!(all(&room, &restored), before);
    let sound = room
        .sweep(&[
            "--data",
            plain(&restored),
            "coordinator",
            "verify",
            "--json",
        ])
        .json();
    assert_eq!(sound["sound"], true, "{sound:#}");

    // Neither of them writes over what is there.
    room.sweep(&[
        "--data",
        plain(&restored),
        "coordinator",
        "restore",
        plain(&backup),
    ])
    .code(4)
    .says(&["not empty"]);
    room.sweep(&[
        "--data",
        plain(&data),
        "coordinator",
        "backup",
        plain(&restored),
    ])
    .code(4)
    .says(&["not empty"]);
    assert_eq!(all(&room, &restored), before);

    // The restored folder is a whole one: a coordinator works on it.
    let mut again = Coordinator::prepared(&room, &restored);
    again.start_again();
    let _agent = room.agent("box", 1, &again.url);
    let sweep = again.submit(&room, &room.path().join("long.toml"));
    assert_eq!(again.settled(&room, &sweep)["sweep"]["state"], "succeeded");
}

#[test]
fn a_backup_beside_a_running_coordinator_is_whole_or_refused() {
    let room = Room::new();
    let coordinator = filled(&room);
    let (backup, restored) = (room.path().join("backup"), room.path().join("restored"));
    let said = coordinator.sweep(
        &room,
        &[
            "--data",
            plain(&room.data()),
            "coordinator",
            "backup",
            plain(&backup),
        ],
    );
    if said.code == Some(0) {
        room.sweep(&[
            "--data",
            plain(&restored),
            "coordinator",
            "restore",
            plain(&backup),
        ])
        .code(0);
        let history = |words: &[&str]| room.sweep(&[words, &["history", "--json"]].concat()).json();
        assert_eq!(
            history(&["--data", plain(&restored)]),
            history(&["--coordinator", &coordinator.url])
        );
    } else {
        said.code(4)
            .says(&["is using it", &format!("process {}", coordinator.id())]);
        assert!(!backup.join("store").exists(), "half a backup is left");
    }
}

#[test]
fn compacting_changes_nothing_but_the_room_it_takes() {
    let room = Room::new();
    let mut coordinator = filled(&room);
    let data = room.data();
    assert_eq!(coordinator.stop(), Some(0));
    let before = all(&room, &data);
    let said = room
        .sweep(&["--data", plain(&data), "coordinator", "compact", "--json"])
        .json();
    assert!(said["records"].as_u64() > Some(0), "{said:#}");
    assert_eq!(all(&room, &data), before);
    coordinator.start_again();
    assert_eq!(
        coordinator.sweep(&room, &["history", "--json"]).json(),
        before[0]
    );
}

#[test]
fn damage_is_found_and_named() {
    let room = Room::new();
    let mut coordinator = filled(&room);
    let data = room.data();
    assert_eq!(coordinator.stop(), Some(0));
    let blobs = std::fs::read_dir(data.join("blobs"))
        .expect("blobs")
        .flatten()
        .map(|entry| entry.path());
    let blob = blobs
        .into_iter()
        .next()
        .expect("the long file lies beside the store");
    let mut bytes = std::fs::read(&blob).expect("its bytes");
    bytes[100] ^= 1;
    std::fs::write(&blob, &bytes).expect("damage");
    let said = room.sweep(&["--data", plain(&data), "coordinator", "verify"]);
    said.code(1);
    let name = blob
        .file_name()
        .and_then(|name| name.to_str())
        .expect("plain text");
    assert!(
        said.out.contains("damaged") && said.out.contains(&name[..12]),
        "{said:?}"
    );
}

#[test]
fn there_is_nothing_to_care_for_where_no_store_is() {
    let room = Room::new();
    let nowhere = room.path().join("nowhere");
    for verb in ["verify", "compact"] {
        room.sweep(&["--data", plain(&nowhere), "coordinator", verb])
            .code(2)
            .says(&[plain(&nowhere)]);
    }
    room.sweep(&["--data", plain(&nowhere), "coordinator", "backup", "b"])
        .code(2);
    room.sweep(&[
        "--data",
        plain(&nowhere),
        "coordinator",
        "restore",
        "no-backup",
    ])
    .code(2)
    .says(&["no-backup"]);
    assert!(
        !nowhere.join("store").exists(),
        "a store was made by looking for one"
    );
}

/// What a host did after the backup is nobody's any more: the agent is told so, ends it, and works on.
#[test]
fn a_host_that_knows_more_than_a_restored_store_works_on() {
    let room = Room::new();
    let job =
        "echo \"log of $1\"\necho $1 >> $ROOM/ran\nuntil [ -e $ROOM/go.$1 ]; do sleep 0.05; done\n";
    room.program("job.sh", job);
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";
    let (data, copy) = (room.data(), room.path().join("backup"));
    let mut coordinator = room.coordinator();
    let host = Host {
        data: Some(room.path().join("of-the-host")),
        ..Host::new("box", 2)
    };
    let agent = host.agent(&room, &coordinator.url);
    assert_eq!(coordinator.stop(), Some(0));
    room.sweep(&[
        "--data",
        plain(&data),
        "coordinator",
        "backup",
        plain(&copy),
    ])
    .code(0);
    coordinator.start_again();

    let sweep = coordinator.submit(&room, &room.sweep_file("lost", "n = [1, 2]", run));
    until("both run", SOON, || room.lines("ran").len() == 2);
    let running = format!("{sweep}/2/train/1");
    coordinator.kill9();
    // One of them ends, and its log and ending are owed; the other runs on.
    room.open("go.1");
    until("it has ended", SOON, || {
        agent
            .attempt(&format!("{sweep}/1/train/1"))
            .join("ending.json")
            .exists()
    });
    std::fs::rename(&data, room.path().join("lost")).expect("moved away");
    room.sweep(&[
        "--data",
        plain(&data),
        "coordinator",
        "restore",
        plain(&copy),
    ])
    .code(0);
    coordinator.start_again();

    room.open("go.3");
    let after = coordinator.submit(&room, &room.sweep_file("after", "n = [3]", run));
    all_succeeded(&coordinator.settled(&room, &after));
    until("what nobody knows is ended", SOON, || {
        attempt_processes(&running).is_empty()
    });
    let said = agent.stderr();
    assert!(!said.contains("refuse"), "{said}");
}
