//! Disks that are full or cannot be written to, under the coordinator and under an agent. It is said what is wrong and
//! where; after making room it goes on, and nothing that was acknowledged is lost. Needs the right to mount a tmpfs.

use serde_json::Value;
use whole::{Host, Room, SOON, SmallDisk, all_succeeded, attempt_processes, attempts, text, until};

const STAGE: &str = "[train]\nrun = [\"sh\", \"{kit}/job.sh\"]";

#[test]
fn a_coordinator_on_a_full_disk_loses_nothing() {
    let room = Room::new();
    let Some(disk) = SmallDisk::mount(&room.data(), 96) else {
        return;
    };
    room.program(
        "job.sh",
        "echo begins\nuntil [ -e \"$ROOM/go\" ]; do sleep 0.02; done\necho ends\n",
    );
    let file = room.sweep_file("full", "", STAGE);
    let mut coordinator = room.coordinator();
    // The agent's disk has room.
    let mut host = Host::new("box", 1);
    host.data = Some(room.path().join("agent-data"));
    let _agent = host.agent(&room, &coordinator.url);
    let mut acknowledged = vec![coordinator.submit(&room, &file)];
    let running = format!("{}/1/train/1", acknowledged[0]);
    until("the first one runs", SOON, || {
        !attempt_processes(&running).is_empty()
    });

    disk.fill();
    // What is not flushed yet may still find a place; then it is acknowledged and must be kept.
    let refused = loop {
        let said = coordinator.sweep(&room, &["submit", file.to_str().expect("plain text")]);
        if said.code != Some(0) {
            break said;
        }
        acknowledged.push(said.word());
        assert!(
            acknowledged.len() < 1000,
            "the disk is full, and everything is acknowledged all the same"
        );
        disk.fill();
    };
    assert!(matches!(refused.code, Some(1 | 3)), "{refused:?}");
    let code = coordinator.wait();
    assert_eq!(
        code,
        Some(1),
        "a coordinator that cannot write must say so and end"
    );
    for part in [
        "disk is full",
        "make room",
        "nothing that was acknowledged is lost",
    ] {
        assert!(
            coordinator.stderr().contains(part),
            "no `{part}` in:\n{}",
            coordinator.stderr()
        );
    }
    // It may have ended on a commit of its own, before it was asked.
    if refused.code == Some(1) {
        refused.says(&["disk is full"]);
    }
    room.open("go");

    disk.make_room();
    coordinator.start_again();
    for sweep in &acknowledged {
        let document = coordinator.settled(&room, sweep);
        all_succeeded(&document);
        let log = coordinator.sweep(&room, &["logs", &format!("{sweep}/1/train")]);
        assert_eq!(log.code(0).out, "begins\nends\n");
    }
    let listed = coordinator
        .sweep(&room, &["list", "--json", "--limit", "0"])
        .json();
    assert_eq!(
        listed["sweeps"].as_array().map(Vec::len),
        Some(acknowledged.len()),
        "what was refused is not there"
    );
}

#[test]
fn a_log_that_does_not_fit_the_coordinators_disk_is_completed_later() {
    let room = Room::new();
    let Some(disk) = SmallDisk::mount(&room.data(), 96) else {
        return;
    };
    room.program("job.sh", "echo begins\nuntil [ -e \"$ROOM/go\" ]; do sleep 0.02; done\nhead -c 2000000 /dev/zero\necho ends\n");
    let file = room.sweep_file("log", "", STAGE);
    let mut coordinator = room.coordinator();
    let mut host = Host::new("box", 1);
    host.data = Some(room.path().join("agent-data"));
    let agent = host.agent(&room, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let attempt = format!("{sweep}/1/train/1");
    until("it runs", SOON, || !attempt_processes(&attempt).is_empty());
    disk.fill();
    room.open("go");
    until("it has ended on its host", SOON, || {
        agent.attempt(&attempt).join("ending.json").exists()
    });
    disk.make_room();
    // It may have gone on by itself, or have ended because it could not write.
    if coordinator.sweep(&room, &["list"]).code == Some(3) {
        coordinator.wait();
        coordinator.start_again();
    }
    all_succeeded(&coordinator.settled(&room, &sweep));
    let log = coordinator.sweep(&room, &["logs", &format!("{sweep}/1/train")]);
    assert_eq!(
        log.code(0).out.len(),
        "begins\n".len() + 2_000_000 + "ends\n".len()
    );
    assert!(log.out.ends_with("ends\n"));
}

/// One attempt on a host whose data folder is the given one.
fn on_disk_of_agent(
    prepare: impl Fn(&Room) -> Option<SmallDisk>,
    program: &str,
) -> Option<(Room, Value)> {
    let room = Room::new();
    let disk = prepare(&room)?;
    room.program("job.sh", program);
    let file = room.sweep_file("host", "", STAGE);
    let coordinator = room.coordinator();
    let mut host = Host::new("box", 1);
    host.data = Some(room.path().join("agent-data"));
    let agent = host.agent(&room, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let document = coordinator.settled(&room, &sweep);
    drop((agent, coordinator, disk));
    Some((room, document))
}

#[track_caller]
fn ends_saying(document: &Value, part: &str) {
    let attempts = attempts(document);
    assert_eq!(attempts.len(), 1, "{document:#}");
    assert_eq!(attempts[0]["outcome"], "failed", "{:#}", attempts[0]);
    let detail = text(attempts[0], "detail");
    assert!(
        detail.contains(part) && detail.contains("agent-data"),
        "no `{part}` with its place in: {detail}"
    );
}

#[test]
fn an_attempt_that_fills_its_hosts_disk_says_so() {
    let small = |room: &Room| SmallDisk::mount(&room.path().join("agent-data"), 4);
    // `head` fails at the write that finds no room.
    if let Some((_room, document)) = on_disk_of_agent(small, "set -e\nhead -c 20000000 /dev/zero\n")
    {
        ends_saying(&document, "No space left on device");
    }
}

#[test]
fn an_agent_whose_folder_is_read_only_says_so() {
    let read_only = |room: &Room| {
        let attempts = room.path().join("agent-data/agents/box/attempts");
        let disk = SmallDisk::mount(&attempts, 4)?;
        disk.make_read_only();
        Some(disk)
    };
    if let Some((_room, document)) = on_disk_of_agent(read_only, "exit 0\n") {
        ends_saying(&document, "Read-only file system");
    }
}
