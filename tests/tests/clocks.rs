//! Wrong clocks: a host that lives in another year, a coordinator whose clock is set back in the middle of a sweep.
//! Times that are shown are the coordinator's, durations are measured, and nothing waits for a time that never comes.

use std::time::{SystemTime, UNIX_EPOCH};

use whole::{
    Coordinator, Host, Room, SOON, WrongClock, all_succeeded, attempt_processes, attempts, job,
    text, until,
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

const HOUR: i64 = 3600;

/// Certificates are valid from two days before they were made: whose clock is hours off is let in, lets in, and works.
#[test]
fn hours_off_do_not_matter_over_tls() {
    let room = Room::new();
    let Some(clock) = WrongClock::new(&room) else {
        return;
    };
    room.program(
        "job.sh",
        "until [ -e \"$ROOM/go.$1\" ]; do sleep 0.02; done\necho works\n",
    );
    let data = room.data();
    let data = data.to_str().expect("plain text");
    room.sweep(&["--data", data, "coordinator", "init"]).code(0);
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    coordinator.url = coordinator.url.replace("http://", "https://");
    coordinator.start_again();
    let owner = |words: &[&str]| room.sweep(&[&["--data", data], words].concat());
    let mut agents = Vec::new();
    for (name, offset) in [("ahead", 30 * HOUR), ("behind", -30 * HOUR)] {
        let mut host = Host::new(name, 1);
        host.data = Some(room.path().join(format!("at-{name}")));
        host.env = clock.off_by(offset).into();
        let token = owner(&["token", "create", "--join"]).word();
        host.env.push(("SWEEP_JOIN_TOKEN".into(), token));
        agents.push(host.agent(&room, &coordinator.url));
    }
    let user = owner(&["token", "create", "ann", "--role", "submit"]).word();
    let as_user = |offset: i64, words: &[&str]| {
        let words = [&["--coordinator", &coordinator.url], words].concat();
        let mut command = room.command(&words);
        command.env("SWEEP_TOKEN", &user).envs(clock.off_by(offset));
        room.start_command(command, &words).finish(SOON)
    };
    let run = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]";
    let file = room.sweep_file("hours", "n = [1, 2]", run);
    let file = file.to_str().expect("plain text");
    let sweep = as_user(30 * HOUR, &["submit", file]).word();
    as_user(-30 * HOUR, &["list"]).code(0);
    // The clocks are wrong indeed: five days are too many, and that is said.
    as_user(-5 * 24 * HOUR, &["list"])
        .code(4)
        .says(&["failed to trust", "not valid yet"]);

    until("both run", SOON, || {
        [1, 2]
            .iter()
            .all(|n| !attempt_processes(&format!("{sweep}/{n}/train/1")).is_empty())
    });
    room.open("go.1");
    coordinator.kill9();
    for (name, value) in clock.off_by(-30 * HOUR) {
        coordinator.env(&name, &value);
    }
    coordinator.start_again();
    room.open("go.2");
    let said = owner(&["watch", &sweep, "--json"]);
    all_succeeded(&said.json());
    assert_eq!(attempts(&said.document()).len(), 2);
}
