//! A coordinator and three agents, each in a network namespace of its own, over mutual TLS: cuts shorter and longer than
//! the grace time, half-open connections, lost packets, delay, a slow link, a coordinator that is killed meanwhile. Each
//! time the attempts are counted, and the log at the coordinator, the log on the host and what the program must have
//! written have one SHA-256: no byte is lost or doubled. Said to be skipped where there are no namespaces.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use whole::{Agent, Coordinator, Host, Net, Room, SOON, Said, attempts, job, jobs, text, until};

const HOSTS: [&str; 3] = ["box", "rig", "tower"];
const KEEPER: &str = "keeper";
/// So long a sweep may take on a bad wire.
const PATIENCE: Duration = Duration::from_secs(180);
/// Each line with its number, so that none can be missing or stand twice unseen. The result names the attempt.
const STREAM: &str = "import os, sys, time\n\
    lines, pause, width = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])\n\
    attempt = os.environ['SWEEP_ATTEMPT']\n\
    with open(os.environ['ROOM'] + '/ran', 'a') as ran:\n    print(attempt, file=ran)\n\
    for n in range(lines):\n\
    \x20   os.write(1, f\"{n:06d} {attempt} {'x' * width}\\n\".encode())\n    time.sleep(pause)\n\
    with open(os.environ['SWEEP_REPORT'], 'a') as report:\n\
    \x20   print('{\"result\": {\"attempt\": \"%s\"}}' % attempt, file=report)\n";

/// What a job of the sweep writes.
#[derive(Clone, Copy)]
struct Lines {
    many: usize,
    /// Seconds between two of them.
    pause: f64,
    width: usize,
}

impl Lines {
    fn text(self, attempt: &str) -> String {
        let filling = "x".repeat(self.width);
        let line = |n| format!("{n:06} {attempt} {filling}\n");
        (0..self.many).map(line).collect()
    }
}

struct Field {
    agents: Vec<Agent>,
    coordinator: Coordinator,
    room: Room,
    net: Net,
}

impl Field {
    /// Three hosts that have joined; absent where this machine has no namespaces.
    fn new(words: &[&str]) -> Option<Self> {
        let net = Net::new(&[&[KEEPER], &HOSTS[..]].concat())?;
        let room = Room::new();
        room.program("stream.py", STREAM);
        let (data, keeper) = (room.data(), net.address(KEEPER));
        let folder = data.to_str().expect("plain text");
        let init = ["--data", folder, "coordinator", "init", "--name", &keeper];
        room.sweep(&init).code(0);
        let mut coordinator = Coordinator::inside(&room, &data, &net.inside(KEEPER));
        coordinator.words(&["--heartbeat", "500ms"]);
        coordinator.words(words);
        coordinator.start_again();
        let mut field = Self {
            agents: Vec::new(),
            coordinator,
            room,
            net,
        };
        for name in HOSTS {
            let token = field
                .sweep(&["token", "create", "--join", "--host", name])
                .word();
            let mut host = Host::new(name, 1);
            host.data = Some(field.room.path().join(format!("at-{name}")));
            host.net = Some(field.net.inside(name));
            host.env.push(("SWEEP_JOIN_TOKEN".into(), token));
            let url = format!("https://{keeper}:7480");
            field.agents.push(host.agent(&field.room, &url));
        }
        Some(field)
    }

    /// On the keeper itself, with the owner's token.
    #[track_caller]
    fn sweep(&self, words: &[&str]) -> Said {
        let data = self.room.data();
        let words = [&["--data", data.to_str().expect("plain text")], words].concat();
        let keeper = self.net.inside(KEEPER);
        let command = self.room.command_in(Some(&keeper), &words);
        self.room.start_command(command, &words).finish(PATIENCE)
    }

    /// Three jobs, one for each host, and all of them write; the sweep's id.
    fn submit(&self, lines: Lines) -> String {
        let Lines { many, pause, width } = lines;
        let run = format!(
            "[train]\nrun = [\"{{python}}\", \"{{kit}}/stream.py\", \"{many}\", \"{pause}\", \"{width}\"]"
        );
        let file = self.room.sweep_file("parts", "n = [1, 2, 3]", &run);
        let sweep = self
            .sweep(&["submit", file.to_str().expect("plain text")])
            .word();
        until("all of them write", SOON, || {
            HOSTS
                .iter()
                .all(|host| self.central(&self.attempt_on(&sweep, host)) > 0)
        });
        sweep
    }

    fn show(&self, sweep: &str) -> Value {
        self.sweep(&["show", sweep, "--json"]).json()
    }

    /// The newest attempt on that host; empty while there is none.
    fn attempt_on(&self, sweep: &str, host: &str) -> String {
        let document = self.show(sweep);
        let on = attempts(&document)
            .into_iter()
            .rev()
            .find(|one| one["host"] == host);
        on.map_or(String::new(), |one| text(one, "id").to_owned())
    }

    fn log(&self, attempt: &str) -> PathBuf {
        self.room.data().join("attempts").join(attempt).join("log")
    }

    /// How much of an attempt's log the coordinator has.
    fn central(&self, attempt: &str) -> u64 {
        let log = std::fs::metadata(self.log(attempt));
        log.map_or(0, |file| if file.is_file() { file.len() } else { 0 })
    }

    fn agent(&self, host: &str) -> &Agent {
        let mut agents = self.agents.iter();
        agents
            .find(|agent| agent.host.name == host)
            .expect("one of the hosts")
    }

    fn state(&self, host: &str) -> String {
        let shown = self.sweep(&["host", "show", host, "--json"]).json();
        text(&shown, "state").to_owned()
    }

    fn until_silent(&self, host: &str) {
        until("the host is silent", SOON, || self.state(host) == "silent");
    }

    /// Follows it to its end; then its document.
    fn settled(&self, sweep: &str) -> Value {
        let said = self.sweep(&["watch", sweep, "--json"]);
        assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
        said.document()
    }

    /// What the program wrote, what its host has and what the coordinator has are the same.
    #[track_caller]
    fn is_whole(&self, attempt: &Value, lines: Lines) {
        let (id, host) = (text(attempt, "id"), text(attempt, "host"));
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        let wanted = sha256(lines.text(id).as_bytes());
        let there = sha256(&read(&self.agent(host).attempt(id).join("log")));
        let here = sha256(&read(&self.log(id)));
        assert_eq!(there, wanted, "the log of {id} on its host");
        assert_eq!(here, wanted, "the log of {id} at the coordinator");
    }

    /// Each job ran once, on a host of its own, and nothing of what it wrote is missing.
    #[track_caller]
    fn all_ran_once(&self, sweep: &str, lines: Lines) {
        let document = self.settled(sweep);
        whole::all_succeeded(&document);
        let all = attempts(&document);
        assert_eq!(all.len(), HOSTS.len(), "{document:#}");
        for attempt in all {
            self.is_whole(attempt, lines);
        }
        let mut ran = self.room.lines("ran");
        ran.sort();
        let ids: Vec<&str> = attempts(&document)
            .iter()
            .map(|one| text(one, "id"))
            .collect();
        assert_eq!(ran, ids, "what was started");
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_cut_shorter_than_the_grace_time_changes_nothing() {
    let Some(field) = Field::new(&["--grace", "60s"]) else {
        return;
    };
    let lines = Lines {
        many: 250,
        pause: 0.04,
        width: 100,
    };
    let sweep = field.submit(lines);
    let cut = field.attempt_on(&sweep, "rig");
    field.net.cut("rig");
    field.until_silent("rig");
    let here = field.central(&cut);
    let there = || std::fs::metadata(field.agent("rig").attempt(&cut).join("log"));
    until("it writes on", SOON, || {
        there().is_ok_and(|log| log.len() > here + 5000)
    });
    assert_eq!(field.central(&cut), here, "the cable is out");
    assert_eq!(field.state("box"), "up");
    field.net.mend("rig");
    field.all_ran_once(&sweep, lines);
}

#[test]
fn a_cut_longer_than_the_grace_time_moves_the_job_and_the_late_result_is_evidence() {
    let Some(field) = Field::new(&["--grace", "4s"]) else {
        return;
    };
    let lines = Lines {
        many: 120,
        pause: 0.04,
        width: 100,
    };
    let sweep = field.submit(lines);
    let first = field.attempt_on(&sweep, "rig");
    field.net.cut("rig");
    let (one, _) = first.rsplit_once('/').expect("an attempt's id");
    let end = one.trim_start_matches(&sweep).to_owned();
    let moved = || job(&field.show(&sweep), &end).clone();
    until("it is done elsewhere", PATIENCE, || {
        moved()["outcome"] == "succeeded"
    });
    let ending = field.agent("rig").attempt(&first).join("ending.json");
    until("the first has come to its end, too", SOON, || {
        ending.exists()
    });
    assert_eq!(moved()["attempts"][0]["outcome"], "host_lost");
    assert!(
        moved()["attempts"][0]["late"].as_bool() != Some(true),
        "nobody can know it yet"
    );
    field.net.mend("rig");
    until("the late word is kept", SOON, || {
        moved()["attempts"][0]["late"] == true
    });

    let document = field.settled(&sweep);
    let counts: Vec<usize> = jobs(&document)
        .iter()
        .map(|job| attempts(job).len())
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), HOSTS.len() + 1, "{counts:?}");
    let moved = job(&document, &end);
    assert_eq!(moved["attempts"][0]["outcome"], "host_lost", "{moved:#}");
    assert_eq!(moved["attempts"][1]["outcome"], "succeeded", "{moved:#}");
    assert_ne!(moved["attempts"][1]["host"], "rig", "{moved:#}");
    // Both logs are whole, that of the evidence as well.
    for attempt in attempts(&document) {
        field.is_whole(attempt, lines);
    }
    assert_eq!(field.room.lines("ran").len(), HOSTS.len() + 1);
    let results = field.sweep(&["results", &sweep, "--json"]).json();
    let rows = results["rows"].as_array().expect("rows");
    let counted: Vec<&str> = rows
        .iter()
        .map(|row| text(&row["result"], "attempt"))
        .collect();
    assert_eq!(counted.len(), HOSTS.len(), "{results:#}");
    assert!(!counted.contains(&first.as_str()), "{results:#}");
    assert!(
        counted.contains(&text(&moved["attempts"][1], "id")),
        "{results:#}"
    );
}

#[test]
fn a_half_open_connection_is_noticed_from_either_end() {
    let Some(field) = Field::new(&["--grace", "120s"]) else {
        return;
    };
    let lines = Lines {
        many: 600,
        pause: 0.04,
        width: 100,
    };
    let sweep = field.submit(lines);
    // The one speaks and is not heard, the other hears nothing.
    field.net.mute("box", KEEPER);
    field.net.deafen("rig");
    field.until_silent("box");
    for host in ["box", "rig"] {
        until("the agent gives the connection up", SOON, || {
            field
                .agent(host)
                .stderr()
                .contains("no session; trying again")
        });
    }
    assert!(field.net.touched(KEEPER) > 0 && field.net.touched("rig") > 0);
    assert_eq!(field.state("tower"), "up");
    field.net.mend(KEEPER);
    field.net.mend("rig");
    field.all_ran_once(&sweep, lines);
    assert!(!field.agent("tower").stderr().contains("no session"));
}

#[test]
fn one_packet_in_ten_is_lost() {
    let Some(field) = Field::new(&["--grace", "60s"]) else {
        return;
    };
    for host in HOSTS.iter().chain(&[KEEPER]) {
        if !field.net.lose(host, 10) {
            return;
        }
    }
    let lines = Lines {
        many: 200,
        pause: 0.04,
        width: 2000,
    };
    let sweep = field.submit(lines);
    field.all_ran_once(&sweep, lines);
    for host in HOSTS.iter().chain(&[KEEPER]) {
        assert!(
            field.net.touched(host) > 5,
            "hardly anything was lost at {host}"
        );
    }
}

#[test]
fn everything_is_late() {
    let Some(field) = Field::new(&["--grace", "60s"]) else {
        return;
    };
    for host in HOSTS.iter().chain(&[KEEPER]) {
        if !field.net.delay(host, 200) {
            return;
        }
    }
    let dial = format!(
        "import socket, time\nbegin = time.monotonic()\nsocket.create_connection(('{}', 7480), 30)\n\
        print(int((time.monotonic() - begin) * 1000))",
        field.net.address(KEEPER)
    );
    let late: u32 = field
        .net
        .python("box", &dial)
        .parse()
        .expect("milliseconds");
    assert!(late >= 400, "there and back took {late} ms only");
    let lines = Lines {
        many: 200,
        pause: 0.04,
        width: 2000,
    };
    let sweep = field.submit(lines);
    field.all_ran_once(&sweep, lines);
    for host in HOSTS {
        assert!(
            !field.agent(host).stderr().contains("no session"),
            "late is not lost"
        );
    }
}

#[test]
fn a_slow_link_while_a_log_streams() {
    // The log takes several times longer than the grace time: who sends it is heard all the same.
    let Some(field) = Field::new(&["--grace", "5s"]) else {
        return;
    };
    field.net.slow("rig", 400);
    let lines = Lines {
        many: 300,
        pause: 0.001,
        width: 4000,
    };
    let begin = Instant::now();
    let sweep = field.submit(lines);
    field.all_ran_once(&sweep, lines);
    assert!(
        !field.agent("rig").stderr().contains("no session"),
        "slow is not lost"
    );
    // 1.2 MB at 50 kB/s.
    assert!(begin.elapsed() > Duration::from_secs(15), "it was not slow");
}

#[test]
fn a_coordinator_is_killed_meanwhile() {
    let Some(mut field) = Field::new(&["--grace", "60s"]) else {
        return;
    };
    let lines = Lines {
        many: 300,
        pause: 0.04,
        width: 100,
    };
    let sweep = field.submit(lines);
    let cut = field.attempt_on(&sweep, "tower");
    field.coordinator.kill9();
    field.coordinator.start_again();
    field.net.cut("tower");
    let here = field.central(&cut);
    field.coordinator.kill9();
    field.coordinator.start_again();
    for host in ["box", "rig"] {
        until("it is back", SOON, || field.state(host) == "up");
    }
    assert_eq!(field.central(&cut), here, "the cable is out");
    field.net.mend("tower");
    field.all_ran_once(&sweep, lines);
}
