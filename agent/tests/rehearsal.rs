//! Rehearsals on one host, by a kit that needs no library: what a child may do to its agent (die, hang, grow, chatter,
//! write nonsense), and that nothing is left of it.

#![cfg(unix)]

mod common;
#[path = "common/coordinator.rs"]
mod coordinator;
#[path = "common/host.rs"]
mod host;

use std::fs;
use std::time::Duration;

use agent::config::HostConfig;
use agent::{AgentError, Leave};
use common::{eventually, living, signal};
use coordinator::Coordinator;
use host::Host;
use proto::v1::coordinator_message::Message;
use proto::v1::{ForgetRehearsal, Rehearse, Rehearsed};
use rustix::process::Signal;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const KIT: &str = r#"
import gzip, json, os, subprocess, sys, time
if "--check" in sys.argv:
    print(json.dumps({"versions": {"torch": "9.9"}, "kit": "fake"}))
    sys.exit(0)
with open(sys.argv[1]) as file:
    do = json.load(file)["do"]
out = sys.argv[sys.argv.index("--out") + 1]
stream = gzip.compress(b"a 4096 weights\nm 1\na 512 x\nf 1\nm 4\n")
if do == "hang":
    subprocess.Popen(["sleep", "600"])
    subprocess.Popen(["setsid", "sleep", "600"])
    time.sleep(600)
if do == "grow":
    held = []
    while True:
        held.append(bytearray(8 << 20))
        for at in range(0, 8 << 20, 4096):
            held[-1][at] = 1
if do == "chatter":
    line = "x" * 65536 + "\n"
    for _ in range(1000):
        sys.stdout.write(line)
        sys.stderr.write(line)
if do == "garbage":
    print("Segmentation fault")
    sys.exit(0)
if do == "long":
    with open(out, "wb") as file:
        while True:
            file.write(os.urandom(1 << 20))
if do == "cut":
    stream = stream[:-9]
if do == "fail":
    raise RuntimeError("no such luck")
if do == "bad":
    print(json.dumps({"error": "bad_recipe", "message": "rank: expected a whole number"}))
    sys.exit(64)
nice = os.nice(0)
with open(out, "wb") as file:
    file.write(stream)
if do == "other":
    print(json.dumps({"device": "hopper"}))
    sys.exit(0)
said = {"seconds": 0.1, "versions": {"torch": "9.9", "bitsandbytes": None}, "doubts": [f"nice {nice}", " ".join(sys.argv[4:])]}
if do != "silent":
    print("a library says hello")
    print(json.dumps(said))
"#;

struct Stage {
    coordinator: Coordinator,
    host: Host,
    shutdown: CancellationToken,
    agent: JoinHandle<Result<(), AgentError>>,
}

impl Stage {
    async fn new(kit: &str, more: &str) -> Self {
        let (coordinator, address) = Coordinator::serve().await;
        let host = Host::new(address);
        fs::create_dir_all(host.root.path().join("kit")).unwrap();
        if !kit.is_empty() {
            fs::write(host.root.path().join("kit/rehearse.py"), kit).unwrap();
        }
        let (shutdown, agent) = start(&host, more);
        Self {
            coordinator,
            host,
            shutdown,
            agent,
        }
    }

    /// With the kit above.
    async fn able(more: &str) -> Self {
        let stage = Self::new(KIT, more).await;
        stage
            .coordinator
            .until("it can rehearse", |kept| !kept.can_rehearse.is_empty())
            .await;
        let can = stage.coordinator.kept().can_rehearse[0].clone();
        assert_eq!(
            (can.stack.as_str(), can.why_not.as_str()),
            ("kit fake, torch 9.9", "")
        );
        stage
    }

    fn ask(&self, key: &str, what: &str) {
        self.ask_within(key, what, Duration::from_secs(60));
    }

    fn ask_within(&self, key: &str, what: &str, limit: Duration) {
        self.coordinator.say(Message::Rehearse(Rehearse {
            key: key.into(),
            settings: format!("{{\"do\": \"{what}\"}}"),
            mode: "train".into(),
            workspace_bytes: 8_519_680,
            time_limit_ms: u64::try_from(limit.as_millis()).unwrap(),
            device: String::new(),
        }));
    }

    async fn answer(&self, key: &str) -> Rehearsed {
        self.coordinator
            .until("it is answered", |kept| {
                kept.rehearsed.iter().any(|one| one.key == key)
            })
            .await;
        let kept = self.coordinator.kept();
        kept.rehearsed
            .iter()
            .find(|one| one.key == key)
            .unwrap()
            .clone()
    }

    fn nothing_is_left(&self) {
        eventually("no process is left", || {
            living(self.host.root.path()).is_empty()
        });
        eventually("no folder is left", || folders(&self.host) == 0);
    }

    async fn end(self) {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.agent)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        self.host.nothing_lives();
        let broken = self.coordinator.kept().broken_rules.clone();
        assert!(broken.is_empty(), "{broken:?}");
    }
}

fn start(host: &Host, more: &str) -> (CancellationToken, JoinHandle<Result<(), AgentError>>) {
    let shutdown = CancellationToken::new();
    let mut options = host.options(&shutdown, Leave::Running);
    let text = format!(
        "name = \"box\"\n{more}\n[[device]]\nkind = \"cpu\"\nusable = \"1 GiB\"\nslots = 2\n"
    );
    options.config = HostConfig::parse(&text).unwrap();
    let agent = tokio::spawn(agent::run(options));
    (shutdown, agent)
}

fn folders(host: &Host) -> usize {
    let folder = host.root.path().join("agent/rehearsals");
    fs::read_dir(folder).map_or(0, |entries| entries.count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_comes_back_with_versions_and_doubts() {
    let stage = Stage::able("").await;
    stage.ask("aa11", "well");
    let answer = stage.answer("aa11").await;
    assert_eq!((answer.error.as_str(), answer.message.as_str()), ("", ""));
    assert_eq!(vram::Stream::read(&answer.stream).unwrap().allocations(), 2);
    assert_eq!(answer.versions.len(), 1);
    assert_eq!(answer.device, "ampere");
    // A Python without a library takes some MiB.
    let mib = answer.peak_bytes >> 20;
    assert!((2..200).contains(&mib), "{mib} MiB");
    let told = [
        "nice 19",
        "--mode train --device ampere --workspace-mib 8.125",
    ];
    assert_eq!(
        answer.doubts, told,
        "low priority, and the words that it was started with"
    );
    // Chatter beyond any buffer does no harm.
    stage.ask("aa12", "chatter");
    assert_eq!(stage.answer("aa12").await.error, "");
    stage.nothing_is_left();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_child_does_is_an_answer() {
    let stage = Stage::able("rehearsal_memory = \"256 MiB\"").await;
    let cases = [
        (
            "grow",
            "out_of_memory",
            "`rehearsal_memory` of this host's file allows 256 MiB",
        ),
        (
            "other",
            "garbage",
            "asked for ampere, and rehearsed for hopper",
        ),
        ("garbage", "garbage", "Segmentation fault"),
        ("silent", "garbage", "nothing that can be read"),
        ("cut", "garbage", "unpack the stream"),
        ("long", "too_large", "[Errno 27]"),
        ("fail", "failed", "no such luck"),
        ("bad", "bad_recipe", "rank: expected a whole number"),
    ];
    for (what, error, says) in cases {
        stage.ask(what, what);
        let answer = stage.answer(what).await;
        assert_eq!(answer.error, error, "{what}: {}", answer.message);
        assert!(answer.message.contains(says), "{what}: {}", answer.message);
        assert!(answer.stream.is_empty());
        if what == "grow" {
            assert!(answer.peak_bytes > 256 << 20, "{}", answer.peak_bytes);
        }
    }
    stage.ask_within("slow", "hang", Duration::from_millis(700));
    assert_eq!(stage.answer("slow").await.error, "timed_out");
    stage.ask("../x", "well");
    assert_eq!(stage.answer("../x").await.error, "not_started");
    stage.nothing_is_left();
    stage.end().await;
}

/// The rehearsal itself, not what it has started.
fn child(host: &Host) -> Option<u32> {
    let is_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("settings.json")
    };
    living(host.root.path()).into_iter().find(is_it)
}

/// With both of its own children.
fn hangs(host: &Host) {
    eventually("it hangs", || living(host.root.path()).len() == 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_or_forgotten_one_leaves_nothing() {
    let stage = Stage::able("").await;
    stage.ask("killed", "hang");
    hangs(&stage.host);
    // The next waits for its turn.
    stage.ask("behind", "well");
    signal(child(&stage.host).unwrap(), Signal::KILL);
    let answer = stage.answer("killed").await;
    assert_eq!(
        (answer.error.as_str(), answer.message.as_str()),
        ("killed", "it was killed by signal 9")
    );
    assert_eq!(stage.answer("behind").await.error, "");
    stage.ask("forgotten", "hang");
    hangs(&stage.host);
    let key = "forgotten".to_owned();
    stage
        .coordinator
        .say(Message::ForgetRehearsal(ForgetRehearsal { key }));
    assert_eq!(stage.answer("forgotten").await.error, "killed");
    stage.nothing_is_left();
    // What runs when the agent ends, ends with it.
    stage.ask("last", "hang");
    hangs(&stage.host);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_loses_no_answer() {
    let stage = Stage::able("").await;
    stage.ask("slow", "hang");
    hangs(&stage.host);
    stage.coordinator.kept().down = true;
    stage.coordinator.cut();
    signal(child(&stage.host).unwrap(), Signal::KILL);
    stage.nothing_is_left();
    assert!(stage.coordinator.kept().rehearsed.is_empty());
    stage.coordinator.kept().down = false;
    assert_eq!(stage.answer("slow").await.error, "killed");
    let told = stage.coordinator.kept().can_rehearse.len();
    assert_eq!(told, 2, "each session learns what the host can");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_ends_what_an_earlier_one_left() {
    let stage = Stage::able("").await;
    let folder = stage.host.root.path().join("agent/rehearsals/left");
    stage.shutdown.cancel();
    stage.agent.await.unwrap().unwrap();
    fs::create_dir_all(&folder).unwrap();
    let mut left = std::process::Command::new("sleep")
        .arg("600")
        .env("SWEEP_REHEARSAL", fs::canonicalize(&folder).unwrap())
        .spawn()
        .unwrap();
    let (shutdown, agent) = start(&stage.host, "");
    tokio::task::spawn_blocking(move || left.wait())
        .await
        .unwrap()
        .unwrap();
    stage
        .coordinator
        .until("it can rehearse again", |kept| kept.can_rehearse.len() == 2)
        .await;
    eventually("the folder is gone", || folders(&stage.host) == 0);
    shutdown.cancel();
    agent.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_says_why() {
    let missing = "import json, sys\nprint(json.dumps({'error': 'missing_package', 'package': 'torch', 'message': 'No'}))\nsys.exit(69)";
    for (kit, more, why) in [
        ("", "", "there is no "),
        (missing, "", "the Python package `torch` is missing"),
        ("raise SystemExit(3)", "", "exit code 3"),
        (
            KIT,
            "python = \"/no/such/python\"",
            "could not start `/no/such/python`",
        ),
    ] {
        let stage = Stage::new(kit, more).await;
        stage
            .coordinator
            .until("it says so", |kept| !kept.can_rehearse.is_empty())
            .await;
        let can = stage.coordinator.kept().can_rehearse[0].clone();
        assert!(can.stack.is_empty() && can.why_not.contains(why), "{can:?}");
        stage.ask("any", "well");
        assert_eq!(stage.answer("any").await.error, "not_started");
        stage.end().await;
    }
    let never = Stage::new(KIT, "rehearsals = 0").await;
    never
        .coordinator
        .until("a hello", |kept| !kept.hellos.is_empty())
        .await;
    let said = never.coordinator.kept().hellos[0].host.clone().unwrap();
    assert_eq!(said.rehearsals, 0);
    never.ask("any", "well");
    assert_eq!(never.answer("any").await.error, "not_started");
    never.end().await;
}

/// One at a time, whatever is asked; and each session learns what is under way, for it may be a coordinator that was
/// started anew and counts on the slot.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_hosts_file_says_and_a_new_session_knows_of_it() {
    let stage = Stage::able("").await;
    stage.ask("first", "hang");
    hangs(&stage.host);
    for key in ["second", "third"] {
        stage.ask(key, "hang");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // One, with its two; who is becoming another program just now is not seen.
    assert!(living(stage.host.root.path()).len() <= 3);
    hangs(&stage.host);
    stage.coordinator.cut();
    stage
        .coordinator
        .until("it is told again", |kept| kept.can_rehearse.len() == 2)
        .await;
    let held = stage.coordinator.kept().can_rehearse[1].held.clone();
    assert_eq!(held, ["first", "second", "third"]);
    for key in ["third", "second", "first"] {
        let key = key.to_owned();
        stage
            .coordinator
            .say(Message::ForgetRehearsal(ForgetRehearsal { key }));
    }
    stage.nothing_is_left();
    stage.end().await;
}
