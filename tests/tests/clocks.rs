//! Wrong clocks: a host that lives in another year, a coordinator whose clock is set back in the middle of a sweep.
//! Times that are shown are the coordinator's, durations are measured, and nothing waits for a time that never comes.

use std::time::{SystemTime, UNIX_EPOCH};

use whole::{
    Host, Room, SOON, WrongClock, all_succeeded, attempt_processes, attempts, job, text, until,
};

const DAY: i64 = 24 * 3600;

/// `2026-12-02`, in UTC, by the calendar of the C library's `date`.
fn today() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let date = std::process::Command::new("date")
        .args(["-u", "-d", &format!("@{now}"), "+%Y-%m-%d"])
        .output();
    String::from_utf8(date.expect("date").stdout)
        .expect("text")
        .trim()
        .to_owned()
}

#[test]
fn a_host_in_another_year() {
    let room = Room::new();
    let Some(clock) = WrongClock::new(&room) else {
        return;
    };
    room.program(
        "job.sh",
        "echo works\nprintf '{\"result\": {}}\\n' >> \"$SWEEP_REPORT\"\n",
    );
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\"]\ntime_limit = \"1h\"";
    let file = room.sweep_file("clock", "n = [1, 2, 3, 4]", run);
    let coordinator = room.coordinator();
    let before = today();
    let mut agents = Vec::new();
    for (name, offset) in [("ahead", 400 * DAY), ("behind", -400 * DAY)] {
        let mut host = Host::new(name, 1);
        host.env = clock.off_by(offset).into();
        agents.push(host.agent(&room, &coordinator.url));
    }
    let sweep = coordinator.submit(&room, &file);
    let document = coordinator.settled(&room, &sweep);
    let after = today();
    all_succeeded(&document);
    for attempt in attempts(&document) {
        for field in ["placed_at", "started_at", "ended_at"] {
            let day = &text(attempt, field)[..10];
            assert!(
                day == before || day == after,
                "{field} is by the host's clock: {attempt:#}"
            );
        }
        let seconds = attempt["seconds"].as_f64().expect("a duration");
        assert!((0.0..60.0).contains(&seconds), "{attempt:#}");
    }
    // The clocks are wrong indeed, or nothing is shown: the agents' own words carry them.
    let said: Vec<String> = agents.iter().map(whole::Agent::stderr).collect();
    assert!(
        said.iter()
            .all(|text| !text.contains(&before) && !text.contains(&after)),
        "{said:?}"
    );
}

#[test]
fn a_coordinator_whose_clock_is_set_back() {
    let room = Room::new();
    let Some(clock) = WrongClock::new(&room) else {
        return;
    };
    // The first attempt fails and is tried again after a pause; the second job waits.
    let program = "case \"$SWEEP_ATTEMPT\" in */1/train/1) exit 3 ;; esac\n\
        if [ $1 = 2 ]; then until [ -e \"$ROOM/go\" ]; do sleep 0.02; done; fi\n\
        printf '{\"result\": {}}\\n' >> \"$SWEEP_REPORT\"\n";
    room.program("job.sh", program);
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]\n[retry]\nfailed = 2";
    let file = room.sweep_file("back", "n = [1, 2]", run);
    let mut coordinator = room.coordinator();
    let _agent = room.agent("box", 2, &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    let watch = coordinator.start_sweep(&room, &["watch", &sweep]);
    until(
        "the first attempt has failed, the other job runs",
        SOON,
        || {
            let document = coordinator.show(&room, &sweep);
            let failed = attempts(job(&document, "/1/train"))
                .iter()
                .any(|one| one["outcome"] == "failed");
            failed && !attempt_processes(&format!("{sweep}/2/train/1")).is_empty()
        },
    );
    coordinator.kill9();
    for (name, value) in clock.off_by(-DAY) {
        coordinator.env(&name, &value);
    }
    coordinator.start_again();
    room.open("go");
    watch.finish(SOON).code(0);
    let document = coordinator.show(&room, &sweep);
    assert_eq!(
        attempts(job(&document, "/1/train")).len(),
        2,
        "{document:#}"
    );
    assert_eq!(
        attempts(job(&document, "/2/train")).len(),
        1,
        "{document:#}"
    );
    // All of it is in the history, whatever the order of the clocks.
    let history = coordinator.sweep(&room, &["history", "--json"]).json();
    assert_eq!(
        history["attempts"].as_array().map(Vec::len),
        Some(3),
        "{history:#}"
    );
    // And once more with a right clock: the events replay in their own order.
    coordinator.kill9();
    for (name, _) in clock.off_by(0) {
        coordinator.env(&name, "");
    }
    coordinator.start_again();
    assert_eq!(coordinator.show(&room, &sweep), document);
}
