//! What a host's Python lacks keeps from it what needs that, by name, and nothing else. The cards are no cards, but the
//! attempts are real ones, and so are the agents' looks at their Python; the kit stands in for one that needs libraries.

use std::path::PathBuf;

use serde_json::Value;
use whole::{Agent, Coordinator, Host, Room, SOON, all_succeeded, attempts, text, until};

/// bitsandbytes is there where the host's file says so.
const KIT: &str = r#"
import gzip, json, os, sys, time
if "--check" in sys.argv:
    while os.path.exists(os.path.join(os.environ["ROOM"], "slow")):
        time.sleep(0.02)
    bitsandbytes = "0.50.2" if os.environ.get("HAS") == "yes" else None
    print(json.dumps({"versions": {"torch": "9.9", "bitsandbytes": bitsandbytes}, "kit": "fake"}))
    sys.exit(0)
lines = [f"a {1 << 30} weights", "m 1", f"a {8 << 20} x", "f 1", "m 2", "m 3", "m 4"]
with gzip.open(sys.argv[sys.argv.index("--out") + 1], "wt") as file:
    file.write("\n".join(lines) + "\n")
print(json.dumps({"seconds": 0.1, "versions": {"torch": "9.9"}, "doubts": []}))
"#;

/// Its file; whether its Python has bitsandbytes.
fn described(name: &str, has: &str) -> Host {
    let device = "[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nname = \"NVIDIA A10\"\nbackend = \"cuda\"\n\
                  usable = \"22 GiB\"\n";
    Host {
        devices: device.to_owned(),
        more: "pass_env = [\"HAS\"]\n".to_owned(),
        env: vec![("HAS".to_owned(), has.to_owned())],
        ..Host::new(name, 1)
    }
}

fn host(room: &Room, coordinator: &Coordinator, name: &str, has: &str) -> Agent {
    let agent = described(name, has).agent(room, &coordinator.url);
    until("its Python was looked at", SOON, || {
        let shown = coordinator.sweep(room, &["host", "show", name, "--json"]);
        shown.json()["rehearses"].is_string()
    });
    agent
}

fn sweep_file(room: &Room, name: &str, quant: &str, run: &str) -> PathBuf {
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[model]\nname = \"Qwen/Qwen2.5-0.5B-Instruct\"\nquant = \"{quant}\"\n[recipe]\n\
         seq_len = 512\ntargets = [\"q_proj\"]\noptimizer = \"adamw\"\nrank = 8\n[train]\nrun = {run}\n"
    );
    room.file(&format!("{name}.toml"), &text)
}

#[test]
fn four_bits_wait_for_a_host_that_has_bitsandbytes() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    room.program("train.py", "print('trained')\n");
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    coordinator.words(&["--settle", "200ms"]);
    coordinator.start_again();
    let mut without = host(&room, &coordinator, "without", "no");
    let kit = r#"["{python}", "{kit}/train.py"]"#;

    // What needs no such package runs there; so does a program whose needs nobody here knows.
    for (name, quant, run) in [("whole", "bf16", kit), ("own", "nf4", r#"["true"]"#)] {
        let sweep = coordinator.submit(&room, &sweep_file(&room, name, quant, run));
        all_succeeded(&coordinator.settled(&room, &sweep));
    }

    let file = sweep_file(&room, "four-bits", "nf4", kit);
    let sweep = coordinator.submit(&room, &file);
    let job = format!("{sweep}/1/train");
    let why = || coordinator.sweep(&room, &["why", &job, "--json"]).json();
    until("it waits for a host that has it", SOON, || {
        why()["code"] == "missing_label"
    });
    assert!(
        text(&why(), "reason").contains("the Python package `bitsandbytes`"),
        "{:#}",
        why()
    );
    let file = file.to_str().expect("plain text");
    let plan = coordinator.sweep(&room, &["plan", file, "--json"]).json();
    let verdict = &plan["trials"][0]["verdicts"][0];
    assert_eq!(
        verdict["lacks"],
        serde_json::json!(["package:bitsandbytes"])
    );

    // What was known of it counts until its agent has looked again.
    room.open("slow");
    without.kill9();
    without.start();
    assert_eq!(why()["code"], "missing_label", "{:#}", why());
    std::fs::remove_file(room.path().join("slow")).expect("a gate");

    let _with = host(&room, &coordinator, "with", "yes");
    let document = coordinator.settled(&room, &sweep);
    all_succeeded(&document);
    let hosts: Vec<&Value> = attempts(&document).iter().map(|one| &one["host"]).collect();
    assert_eq!(hosts, ["with"]);
}

/// A fresh host is not tried with what it may lack while its agent is still looking.
#[test]
fn nothing_starts_on_a_python_that_is_still_being_looked_at() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    room.program("train.py", "print('trained')\n");
    let slow = room.file("slow", "");
    let mut coordinator = Coordinator::prepared(&room, &room.data());
    coordinator.words(&["--settle", "200ms"]);
    coordinator.start_again();
    let _agent = described("fresh", "no").agent(&room, &coordinator.url);
    let kit = r#"["{python}", "{kit}/train.py"]"#;
    let sweep = coordinator.submit(&room, &sweep_file(&room, "early", "nf4", kit));
    let code = || {
        let said = coordinator.sweep(&room, &["why", &format!("{sweep}/1/train"), "--json"]);
        said.json()["code"].clone()
    };
    until("it waits for the look", SOON, || {
        code() == "packages_unknown"
    });
    std::fs::remove_file(slow).expect("the look goes on");
    until("the host lacks it", SOON, || code() == "missing_label");
    assert!(attempts(&coordinator.show(&room, &sweep)).is_empty());
}
