//! Advice through a real coordinator: `plan --advise` and `why` say what would make a trial fit and what its peak is made
//! of, by the streams that this coordinator has, which a plan without it does not know. The card is simulated; the
//! rehearsals are real processes of a kit that needs no library.

use std::path::{Path, PathBuf};

use serde_json::Value;
use whole::{Agent, Coordinator, Host, Room, SOON, Said, jobs, project, text, until};

/// Labels and large sizes of gemma 3 4B's step, as the kit's own rehearsal writes them.
const KIT: &str = r#"
import gzip, json, sys
if "--check" in sys.argv:
    print(json.dumps({"versions": {"torch": "9.9"}, "kit": "fake"}))
    sys.exit(0)
with open(sys.argv[1]) as file:
    rank = json.load(file)["rank"]
mib, head = 2**20, 262208 * 2560 * 2
lines = [f"a {4000 * mib} step model.py:72", f"a {head} step fixes.py:18", f"a {16 * rank * mib} step tuners_utils.py:2762",
         "m 1", f"a {8 * mib} layers.0.mlp.gate_proj bnb.py:552", f"a {8 * mib} layers.1.mlp.gate_proj bnb.py:552",
         f"a {head} lm_head fixes.py:44", "f 5", "m 2", f"a {head} head backward:MmBackward0 fixes.py:47", "f 6", "m 3", "m 4"]
with gzip.open(sys.argv[sys.argv.index("--out") + 1], "wt") as file:
    file.write("\n".join(lines) + "\n")
print(json.dumps({"seconds": 0.1, "versions": {"torch": "9.9"}, "doubts": []}))
"#;

const COPIED: &str = "lm_head copied by save_on_cpu's offload";

fn sweep_file(room: &Room, seq_len: u32) -> PathBuf {
    let text = r#"
[sweep]
name = "ceiling"
[model]
name = "unsloth/gemma-3-4b-it"
quant = "nf4"
[recipe]
dropout = 0.1
seq_len = SEQ_LEN
response_len = 237
memory_fixes = ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"]
optimizer = "adamw_8bit"
[axes]
rank = [112, 128]
learning_rate = [1e-4, 2e-4]
[probe]
mode = "rehearse"
run = ["true"]
[train]
after = "probe"
run = ["true"]
"#;
    let text = text.replace("SEQ_LEN", &seq_len.to_string());
    room.file("ceiling.toml", &text)
}

fn fleet(room: &Room) -> PathBuf {
    let text = "time_scale = 36000\n[[host]]\nname = \"box\"\nos = \"linux\"\n[[host.device]]\n\
         name = \"NVIDIA GeForce RTX 3070 Ti\"\nbackend = \"cuda\"\ntotal = \"8192 MiB\"\nusable = \"7550 MiB\"\n";
    room.file("fleet.toml", text)
}

/// Rules what fits nowhere at once: all hosts are there before anything is submitted.
fn settled_coordinator(room: &Room) -> Coordinator {
    let mut coordinator = Coordinator::prepared(room, &room.data());
    coordinator.words(&["--settle", "200ms"]);
    coordinator.start_again();
    coordinator
}

/// What it said, wherever its lines break.
fn words_of(said: &Said) -> String {
    let words = said.code(0).out.split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain text")
}

/// By what streams the suggestions and the changes tried of every advice were replayed.
fn streams(plan: &Value) -> Vec<&str> {
    let all = plan["advice"].as_array().expect("a list").iter();
    let answers = all.flat_map(|one| {
        let lists = ["suggestions", "tried"].map(|name| one["answer"][name].as_array());
        lists.into_iter().flatten().flatten()
    });
    answers.filter_map(|one| one["stream"].as_str()).collect()
}

#[track_caller]
fn is_advice_of_two_recipes(plan: &Value) {
    assert_eq!(plan["advised"], true);
    let advice = plan["advice"].as_array().expect("a list");
    // Trials that differ in what memory does not depend on share theirs.
    let trials: Vec<&Value> = advice.iter().map(|one| &one["trials"]).collect();
    assert_eq!(
        trials,
        [&serde_json::json!([1, 2]), &serde_json::json!([3, 4])]
    );
    for one in advice {
        let answer = &one["answer"];
        assert_eq!(one["fits_elsewhere"], false);
        assert_eq!(answer["verdict"], "too_large", "{one:#}");
        let suggestions = answer["suggestions"].as_array().expect("a list");
        let keeps: Vec<bool> = suggestions
            .iter()
            .map(|one| one["keeps_arithmetic"] == true)
            .collect();
        assert!(keeps.is_sorted_by(|a, b| a >= b), "{answer:#}");
        for one in suggestions {
            let shown = one["stream"].is_string() || one["source"] == "measured";
            assert!(shown, "neither replayed nor measured: {one:#}");
            let number = |field: &str| one[field].as_f64().expect("a number");
            assert!(number("need_mib") + number("band_mib") <= 7550.1, "{one:#}");
            assert!(number("predicted_reserved_mib") >= number("predicted_allocated_mib"));
        }
    }
}

fn ask(coordinator: &Coordinator, room: &Room, words: &[&str]) -> Value {
    coordinator
        .sweep(room, &[words, &["--json"]].concat())
        .json()
}

#[test]
fn the_coordinators_own_streams_decide() {
    let room = Room::new();
    room.program("rehearse.py", KIT);
    let coordinator = settled_coordinator(&room);
    // A length that no shipped measurement is of.
    let (file, fleet) = (sweep_file(&room, 7168), fleet(&room));
    let _card = Agent::of_fleet(&room, &fleet, "box", &coordinator.url);
    // Nothing was rehearsed yet: the shapes alone.
    let before = ask(&coordinator, &room, &["plan", plain(&file), "--advise"]);
    assert!(streams(&before).iter().all(|one| *one == "shapes"));
    let _worker = Host::new("one", 2).agent(&room, &coordinator.url);
    until("it can rehearse", SOON, || {
        ask(&coordinator, &room, &["host", "show", "one"])["rehearses"] == "kit fake, torch 9.9"
    });
    let sweep = coordinator.submit(&room, &file);
    let document = coordinator.settled(&room, &sweep);
    let is_probe = |job: &&Value| job["kind"] == "probe";
    for probe in jobs(&document).into_iter().filter(is_probe) {
        assert_eq!(probe["outcome"], "infeasible", "{probe:#}");
    }

    let plan = ask(&coordinator, &room, &["plan", plain(&file), "--advise"]);
    is_advice_of_two_recipes(&plan);
    assert!(streams(&plan).contains(&"rehearsed"), "{plan:#}");
    let verdict = &plan["trials"][0]["verdicts"][0];
    assert_eq!(verdict["source"], "replayed", "{verdict:#}");
    // Without this coordinator none of that is known.
    let words = [
        "plan",
        plain(&file),
        "--fleet",
        plain(&fleet),
        "--advise",
        "--json",
    ];
    let shipped = room.sweep(&words).json();
    assert!(!streams(&shipped).contains(&"rehearsed"), "{shipped:#}");

    let job = format!("{sweep}/1/train");
    let why = ask(&coordinator, &room, &["why", &job]);
    let peak = &why["peak"]["explained"];
    assert_eq!(
        (text(peak, "stream"), &peak["scaled"]),
        ("rehearsed", &Value::from(false))
    );
    for wanted in [&peak["largest_request"], &peak["out_of_memory"]["wanted"]] {
        assert_eq!(wanted["mib"], 1280.3, "{peak:#}");
        assert_eq!(
            (text(wanted, "module"), text(wanted, "line")),
            ("lm_head", "fixes.py:44")
        );
        assert_eq!(text(wanted, "note"), COPIED);
    }
    assert_eq!(peak["largest"][0]["module"], "step");
    let advice = &why["advice"];
    assert_eq!(advice["suggestion"]["keeps_arithmetic"], true, "{advice:#}");
    let said = words_of(&coordinator.sweep(&room, &["why", &job]));
    for part in [
        "peak of the rehearsed stream",
        COPIED,
        "wants 1280.3 MiB",
        "computes the same",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    // What it says can be done next can be done.
    let more = text(advice, "command");
    assert!(more.ends_with("ceiling.toml --advise"), "{more}");
    let command = why["peak"]["commands"][0].as_str().expect("a command");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let explained = words_of(&room.sweep(&words));
    let failure = "out of memory, wanting 1280.3 MiB more for lm_head fixes.py:44";
    assert!(explained.contains(failure), "{explained}");
}

/// What no rehearsal has shown is told by the shapes, with the knowledge that the program ships with.
#[test]
fn without_a_rehearsal_the_shapes_explain() {
    let room = Room::new();
    let coordinator = settled_coordinator(&room);
    let (file, fleet) = (
        sweep_file(&room, 7177),
        project().join("deploy/fleets/home.toml"),
    );
    let _box = Agent::of_fleet(&room, &fleet, "box", &coordinator.url);
    let sweep = coordinator.submit(&room, &file);
    coordinator.settled(&room, &sweep);
    let why = ask(&coordinator, &room, &["why", &format!("{sweep}/1/train")]);
    let peak = &why["peak"]["explained"];
    assert_eq!(text(peak, "stream"), "shapes", "{why:#}");
    let wanted = &peak["out_of_memory"]["wanted"];
    assert_eq!(
        (text(wanted, "note"), &wanted["mib"]),
        (COPIED, &Value::from(1280.3))
    );
    assert_eq!(why["advice"]["suggestion"]["keeps_arithmetic"], true);
    assert_eq!(text(&why["peak"], "host"), "box");
    // There is no file to replay.
    assert_eq!(why["peak"]["commands"], serde_json::json!([]));

    // A host that lacks what the sweep requires is shown, and no change is sought for it.
    let advice = |toml: &str| {
        let file = room.file("other.toml", toml);
        let plan = ask(&coordinator, &room, &["plan", plain(&file), "--advise"]);
        let rows = plan["trials"][0]["verdicts"].as_array().expect("a list");
        assert_eq!(
            (rows.len(), text(&rows[0], "verdict")),
            (2, "too_large"),
            "{plan:#}"
        );
        plan["advice"].as_array().expect("a list").len()
    };
    let plain_file = std::fs::read_to_string(&file).expect("the sweep file");
    assert!(advice(&plain_file) > 0);
    let required = format!("{plain_file}[place]\nrequire = [\"dataset:other\"]\n");
    assert_eq!(advice(&required), 0);
}
