//! Jobs that take more of their host than is good, and what is left of them: a limit of memory, a limit of processes,
//! children that run away. Each harms itself only, and nothing of it stays, whoever was killed. Needs the right to make
//! control groups; where it is missing each test says that it is skipped.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use whole::{
    Agent, Coordinator, Host, Room, SOON, attempt_processes, attempts, groups_of, job, kill9,
    living, may_limit, shepherd_of, sweep_binary, text, until, until_some,
};

/// Memory that is really used, piece by piece.
const EATS: &str = "python3 -c '\nimport os, sys\nkept = []\nwhile True:\n    kept.append(bytearray(os.urandom(1)) * (8 << 20))\n    print(len(kept) * 8, flush=True)\n    if len(kept) * 8 > 1024: sys.exit(0)\n'\n";
/// Until it is told; then it is done.
const STEADY: &str = "until [ -e \"$ROOM/go\" ]; do sleep 0.02; done\necho done\n";

struct System {
    coordinator: Coordinator,
    agent: Agent,
    room: Room,
}

/// Absent where this process may make no control groups.
fn system(limits: &str) -> Option<System> {
    let room = Room::new();
    room.program("eats.sh", EATS);
    room.program("steady.sh", STEADY);
    let coordinator = room.coordinator();
    // As text, since a table must come after the plain keys.
    let host = Host {
        devices: format!("[limits]\n{limits}"),
        ..Host::new("box", 3)
    };
    let agent = host.agent(&room, &coordinator.url);
    let shown = coordinator
        .sweep(&room, &["host", "show", "box", "--json"])
        .json();
    may_limit(&shown).then_some(System {
        coordinator,
        agent,
        room,
    })
}

impl System {
    fn submit(&self, name: &str, program: &str, more: &str) -> String {
        let run = format!("[train]\nrun = [\"sh\", \"{{kit}}/{program}\"]\n{more}");
        let file = self.room.sweep_file(name, "", &run);
        self.coordinator.submit(&self.room, &file)
    }

    fn runs(&self, sweep: &str) -> String {
        let attempt = format!("{sweep}/1/train/1");
        until("it runs", SOON, || !attempt_processes(&attempt).is_empty());
        attempt
    }

    #[track_caller]
    fn ended(&self, sweep: &str) -> Value {
        let document = self.coordinator.settled(&self.room, sweep);
        let all = attempts(job(&document, "/1/train"));
        assert_eq!(all.len(), 1, "{document:#}");
        all[0].clone()
    }

    /// The neighbour is the same process to its end, and so is the agent.
    #[track_caller]
    fn unharmed(&self, neighbour: &str, agent: u32) {
        self.room.open("go");
        let attempt = self.ended(neighbour);
        assert_eq!(attempt["outcome"], "succeeded", "{attempt:#}");
        assert_eq!(self.agent.id(), agent);
        assert!(std::fs::exists(format!("/proc/{agent}/exe")).expect("a folder"));
    }
}

#[track_caller]
fn nothing_is_left(attempt: &str) {
    let left = attempt_processes(attempt);
    assert!(left.is_empty(), "processes {left:?} of {attempt} live on");
    until("its control groups are gone", SOON, || {
        groups_of(attempt).is_empty()
    });
}

#[test]
fn a_job_over_its_memory_limit_dies_alone() {
    let Some(system) = system("memory = \"96 MiB\"") else {
        return;
    };
    let neighbour = system.submit("neighbour", "steady.sh", "");
    let beside = system.runs(&neighbour);
    assert!(
        !groups_of(&beside).is_empty(),
        "the neighbour is held in nothing"
    );
    let agent = system.agent.id();
    let eater = system.submit("eater", "eats.sh", "");
    let attempt = system.ended(&eater);
    assert_eq!(attempt["outcome"], "host_oom", "{attempt:#}");
    let detail = text(&attempt, "detail");
    for part in [
        "its limit of 96.0 MiB was reached",
        "(peak 9",
        "killed by the kernel",
    ] {
        assert!(detail.contains(part), "no `{part}` in: {detail}");
    }
    nothing_is_left(&format!("{eater}/1/train/1"));
    system.unharmed(&neighbour, agent);
    nothing_is_left(&beside);
}

#[test]
fn a_probe_has_its_own_limit() {
    let Some(system) = system("memory = \"2 GiB\"\nprobe_memory = \"96 MiB\"") else {
        return;
    };
    let run = "run = [\"sh\", \"{kit}/eats.sh\"]";
    let stages = format!("[probe]\nmode = \"card\"\n{run}\n[train]\nafter = \"probe\"\n{run}");
    let file = system.room.sweep_file("probed", "", &stages);
    let sweep = system.coordinator.submit(&system.room, &file);
    let document = system.coordinator.settled(&system.room, &sweep);
    let probe = attempts(job(&document, "/1/probe"))[0].clone();
    assert_eq!(probe["outcome"], "host_oom", "{document:#}");
    // The same program, as a training.
    let train = system.submit("trained", "eats.sh", "");
    assert_eq!(system.ended(&train)["outcome"], "succeeded");
}

#[test]
fn a_fork_bomb_stays_within_its_limit() {
    let Some(system) = system("processes = 48") else {
        return;
    };
    // Each one has children for as long as it may, and none ever gives up.
    let bomb = "exec python3 -c '\nimport os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.05)\n'\n";
    system.room.program("bomb.sh", bomb);
    let neighbour = system.submit("neighbour", "steady.sh", "");
    let beside = system.runs(&neighbour);
    let agent = system.agent.id();
    let sweep = system.submit("bomb", "bomb.sh", "time_limit = \"3s\"");
    let attempt = format!("{sweep}/1/train/1");
    let mut most = 0;
    until("it has filled its limit", SOON, || {
        most = most.max(attempt_processes(&attempt).len());
        most >= 40
    });
    assert!(most <= 48, "{most} processes at a time");
    let ended = system.ended(&sweep);
    assert_eq!(ended["outcome"], "timed_out", "{ended:#}");
    let detail = text(&ended, "detail");
    assert!(detail.contains("48 is its limit"), "{detail}");
    nothing_is_left(&attempt);
    system.unharmed(&neighbour, agent);
    nothing_is_left(&beside);
}

/// Eight children, twice forked, in sessions of their own, deaf to SIGTERM; two have dropped all that marks them.
fn runaway(unmarked: &str) -> String {
    format!(
        "for i in 1 2 3 4 5 6; do (setsid sh -c '(trap \"\" TERM HUP; while :; do sleep 1; done) &' &); done\n\
         for i in 1 2; do (setsid env -i sleep {unmarked} &); done\n\
         echo ready > \"$ROOM/ready\"\nwhile :; do sleep 1; done\n"
    )
}

/// A duration that no other process sleeps for.
fn unmarked(base: u32) -> String {
    format!("{base}.{}", std::process::id())
}

#[test]
fn a_cancelled_job_leaves_no_child_and_no_group() {
    let Some(system) = system("memory = \"1 GiB\"") else {
        return;
    };
    let bare = unmarked(7101);
    system.room.program("runaway.sh", &runaway(&bare));
    let sweep = system.submit("runaway", "runaway.sh", "");
    let attempt = system.runs(&sweep);
    until("all eight run", SOON, || {
        living(&bare).len() == 2 && attempt_processes(&attempt).len() >= 7
    });
    system
        .coordinator
        .sweep(&system.room, &["cancel", &sweep])
        .code(0);
    let ended = system.ended(&sweep);
    assert_eq!(ended["outcome"], "cancelled", "{ended:#}");
    assert!(living(&bare).is_empty(), "an unmarked child lives on");
    nothing_is_left(&attempt);
}

#[test]
fn what_was_killed_with_its_shepherd_and_its_agent_is_ended_by_the_next_agent() {
    let Some(mut system) = system("memory = \"1 GiB\"") else {
        return;
    };
    let bare = unmarked(7102);
    system.room.program("runaway.sh", &runaway(&bare));
    let sweep = system.submit("killed", "runaway.sh", "[retry]\ninterrupted = 0");
    let attempt = system.runs(&sweep);
    until("all eight run", SOON, || {
        living(&bare).len() == 2 && attempt_processes(&attempt).len() >= 7
    });
    let shepherd = until_some("it has a shepherd", SOON, || shepherd_of(&attempt));
    system.agent.kill9();
    kill9(shepherd);
    assert!(
        !groups_of(&attempt).is_empty(),
        "nobody could have removed them"
    );
    assert!(!living(&bare).is_empty(), "nobody could have ended them");
    system.agent.start();
    let ended = system.ended(&sweep);
    assert_eq!(ended["outcome"], "interrupted", "{ended:#}");
    until("the unmarked ones are gone", SOON, || {
        living(&bare).is_empty()
    });
    nothing_is_left(&attempt);
}

#[test]
fn an_attempt_whose_folder_is_gone_is_ended_by_the_next_agent() {
    let Some(mut system) = system("memory = \"1 GiB\"") else {
        return;
    };
    let bare = unmarked(7103);
    system.room.program("runaway.sh", &runaway(&bare));
    let sweep = system.submit("gone", "runaway.sh", "[retry]\ninterrupted = 0");
    let attempt = system.runs(&sweep);
    until("all eight run", SOON, || living(&bare).len() == 2);
    let shepherd = until_some("it has a shepherd", SOON, || shepherd_of(&attempt));
    system.agent.kill9();
    kill9(shepherd);
    // Its children may write into it meanwhile.
    let folder = system.agent.attempt(&attempt);
    until("its folder is gone", SOON, || {
        let _ = std::fs::remove_dir_all(&folder);
        !folder.exists()
    });
    system.agent.start();
    until("its children are gone", SOON, || living(&bare).is_empty());
    nothing_is_left(&attempt);
}

/// A user who may make no control groups.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn without_rights_the_agent_works_and_says_that_nobody_enforces_its_limits() {
    let room = Room::new();
    let sweep = sweep_binary();
    let as_nobody = |words: &[&str]| {
        let mut command = room.command(&[]);
        let mut other = Command::new("setpriv");
        other
            .args(NOBODY)
            .arg(sweep)
            .args(words)
            .current_dir(room.path());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => other.env(name, value),
                None => other.env_remove(name),
            };
        }
        command = other;
        command.stdin(Stdio::null());
        command
    };
    std::fs::set_permissions(room.path(), Permissions::from_mode(0o755)).expect("its own folder");
    let tried = as_nobody(&["--version"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        println!("SKIPPED: only root can try another user here, who must reach the binary");
        return;
    }
    room.program("steady.sh", STEADY);
    room.open("go");
    let data = room.path().join("data-of-nobody");
    std::fs::create_dir(&data).expect("a folder");
    std::os::unix::fs::chown(&data, Some(65534), Some(65534)).expect("root");
    let host = Host {
        devices: "[limits]\nmemory = \"96 MiB\"".to_owned(),
        ..Host::new("box", 1)
    };
    let file = host.write(&room);
    let (file, data) = (
        file.to_str().expect("plain text"),
        data.to_str().expect("plain text"),
    );
    let coordinator = room.coordinator();
    let words = [
        "--data",
        data,
        "agent",
        "run",
        "--config",
        file,
        "--coordinator",
        &coordinator.url,
    ];
    let _agent = room.start_command(as_nobody(&words), &words);
    let hosts = || coordinator.sweep(&room, &["hosts"]).out;
    until("the host is up", SOON, || hosts().contains("box"));
    let said = hosts().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("box is degraded: [limits] memory, processes of attempts are not enforced"),
        "{said}"
    );
    let run = "[train]\nrun = [\"sh\", \"{kit}/steady.sh\"]";
    let sweep = coordinator.submit(&room, &room.sweep_file("works", "", run));
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(
        attempts(&document)[0]["outcome"],
        "succeeded",
        "{document:#}"
    );

    let words = [
        "--data", data, "agent", "doctor", "--config", file, "--json",
    ];
    let said = room.start_command(as_nobody(&words), &words).finish(SOON);
    let document = said.document();
    let checks = document["checks"].as_array().expect("a list");
    let limits = checks.iter().find(|check| check["name"] == "limits");
    let limits = limits.unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(limits["state"], "warning", "{limits:#}");
    assert!(text(limits, "says").contains("not enforced"), "{limits:#}");
}

#[test]
fn a_file_with_a_limit_that_makes_no_sense_is_refused() {
    let room = Room::new();
    let file = room.file(
        "host.toml",
        "name = \"box\"\ndiscover = false\n[limits]\nmemory = \"1 MiB\"\n[[device]]\nkind = \"cpu\"\n",
    );
    let file = file.to_str().expect("plain text");
    let said = room
        .start(&["agent", "doctor", "--config", file])
        .finish(Duration::from_secs(60));
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.err.contains("[limits] memory = 1.0 MiB is too little"),
        "{said:?}"
    );
}
