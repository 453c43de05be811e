//! The documents that scripts read: `run --json`, `show --json`, `history --json` and the rest have the field names that
//! were promised, with the promised types, and say the same. Tables for people are not looked at here.

use std::path::Path;

use serde_json::Value;
use whole::{Host, Room, attempts, jobs, text};

#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    /// RFC 3339 in UTC.
    Time,
    Number,
    Count,
    Flag,
    Object,
    List,
    /// Of another type, or null.
    Maybe(&'static Type),
}

use Type::{Count, Flag, List, Maybe, Number, Object, Text, Time};

impl Type {
    fn holds(self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Time => value
                .as_str()
                .is_some_and(|text| text.len() >= 20 && text.contains('T') && text.ends_with('Z')),
            Number => value.is_number(),
            Count => value.is_u64(),
            Flag => value.is_boolean(),
            Object => value.is_object(),
            List => value.is_array(),
            Maybe(other) => value.is_null() || other.holds(value),
        }
    }
}

#[track_caller]
fn has(value: &Value, fields: &[(&str, Type)]) {
    for (name, wanted) in fields {
        let found = value
            .get(name)
            .unwrap_or_else(|| panic!("no field `{name}` in {value:#}"));
        assert!(wanted.holds(found), "`{name}` is no {wanted:?}: {found}");
    }
}

const SWEEP: &[(&str, Type)] = &[
    ("id", Text),
    ("name", Text),
    ("state", Text),
    ("simulated", Flag),
];
const TRIAL: &[(&str, Type)] = &[
    ("id", Text),
    ("params", Object),
    ("verdicts", List),
    ("jobs", List),
];
const VERDICT: &[(&str, Type)] = &[
    ("host", Text),
    ("device", Text),
    ("verdict", Text),
    ("need_mib", Maybe(&Number)),
    ("usable_mib", Number),
];
const JOB: &[(&str, Type)] = &[
    ("id", Text),
    ("kind", Text),
    ("outcome", Maybe(&Text)),
    ("attempts", List),
];
const ATTEMPT: &[(&str, Type)] = &[
    ("id", Text),
    ("host", Text),
    ("device", Text),
    ("simulated", Flag),
    ("predicted_mib", Maybe(&Number)),
    ("peak_allocated_mib", Maybe(&Number)),
    ("outcome", Text),
    ("started_at", Maybe(&Time)),
    ("ended_at", Time),
    ("exit", Maybe(&Number)),
];
const HISTORY: &[(&str, Type)] = &[
    ("sweep", Text),
    ("trial", Text),
    ("kind", Text),
    ("recipe", Object),
];
const SUMMARY: &[(&str, Type)] = &[
    ("trials", Count),
    ("jobs", Count),
    ("attempts", Count),
    ("outcomes", Object),
    ("exit_code", Count),
];

#[track_caller]
fn is_a_sweep_document(document: &Value) {
    has(
        document,
        &[("sweep", Object), ("trials", List), ("summary", Object)],
    );
    has(&document["sweep"], SWEEP);
    has(&document["summary"], SUMMARY);
    for trial in document["trials"].as_array().expect("a list") {
        has(trial, TRIAL);
        for verdict in trial["verdicts"].as_array().expect("a list") {
            has(verdict, VERDICT);
            assert!(
                ["fits", "uncertain", "too_large", "spills", "offloads"]
                    .contains(&text(verdict, "verdict")),
                "{verdict:#}"
            );
        }
    }
    for job in jobs(document) {
        has(job, JOB);
        assert!(text(job, "id").ends_with(text(job, "kind")), "{job:#}");
        for attempt in attempts(job) {
            has(attempt, ATTEMPT);
            assert!(
                text(attempt, "id").starts_with(text(job, "id")),
                "{attempt:#}"
            );
        }
    }
}

const PROGRAM: &str = r#"
printf '{"metric": {"loss": 0.5}, "step": 1}\n{"result": {"held_out": 0.75}}\n' >> "$SWEEP_REPORT"
[ "$1" = 2 ] && exit 5
exit 0
"#;

#[test]
fn every_document_has_the_promised_fields() {
    let room = Room::new();
    room.program("job.sh", PROGRAM);
    let stages = "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]\n\
        [bake]\nafter = \"train\"\nrun = [\"sh\", \"{kit}/job.sh\", \"0\"]";
    let file = room.sweep_file("fields", "n = [1, 2]", stages);
    let host = Host::new("here", 1).write(&room);
    let (data, plain) = (room.data(), |path: &Path| {
        path.to_str().expect("plain text").to_owned()
    });
    let (data, file, host) = (plain(&data), plain(&file), plain(&host));
    let ask =
        |words: &[&str]| room.sweep(&[&["--data", data.as_str()], words, &["--json"]].concat());

    let said = ask(&["run", &file, "--config", &host]);
    let run = said.code(1).document();
    is_a_sweep_document(&run);
    let id = text(&run["sweep"], "id");
    assert_eq!(run["sweep"]["state"], "failed");
    assert_eq!(
        (
            run["sweep"]["simulated"].as_bool(),
            run["summary"]["exit_code"].as_u64()
        ),
        (Some(false), Some(1))
    );
    assert_eq!(
        run["summary"]["outcomes"],
        serde_json::json!({"failed": 1, "skipped": 1, "succeeded": 2})
    );
    assert_eq!(attempts(&run).len(), 3);
    assert_eq!(run["trials"][1]["jobs"][0]["attempts"][0]["exit"], 5);

    let show = ask(&["show", id]).json();
    is_a_sweep_document(&show);
    assert_eq!(show, run, "`show` prints the same document as `run`");
    // By its name it is the newest of that name.
    assert_eq!(ask(&["show", "fields"]).json(), run);

    let history = ask(&["history"]).json();
    let listed = history["attempts"].as_array().expect("a list");
    assert_eq!(listed.len(), 3);
    for attempt in listed {
        has(attempt, ATTEMPT);
        has(attempt, HISTORY);
        assert_eq!(attempt["sweep"], id);
        assert!(attempt["recipe"].get("n").is_some(), "{attempt:#}");
        let same = attempts(&run)
            .into_iter()
            .find(|one| one["id"] == attempt["id"])
            .expect("the same attempt");
        for (field, _) in ATTEMPT {
            assert_eq!(
                attempt[field], same[field],
                "`{field}` differs between history and run"
            );
        }
    }
    let starts: Vec<&str> = listed.iter().map(|one| text(one, "started_at")).collect();
    assert!(
        starts.is_sorted_by(|a, b| a >= b),
        "newest first: {starts:?}"
    );

    for (words, count) in [
        (&["history", "--host", "here"][..], 3),
        (&["history", "--host", "elsewhere"], 0),
        (&["history", "--outcome", "failed"], 1),
        (&["history", "--kind", "bake"], 1),
        (&["history", "--sweep", id, "--limit", "2"], 2),
        (&["history", "--since", "1h"], 3),
        (&["history", "--until", "1h"], 0),
    ] {
        let found = ask(words).json()["attempts"].as_array().map(Vec::len);
        assert_eq!(found, Some(count), "sweep {}", words.join(" "));
    }
}

#[test]
fn the_other_verbs_print_one_document_too() {
    let room = Room::new();
    room.program("job.sh", PROGRAM);
    let file = room.sweep_file(
        "verbs",
        "n = [1, 2]",
        "[train]\nrun = [\"sh\", \"{kit}/job.sh\", \"{n}\"]",
    );
    let file = file.to_str().expect("plain text");
    let coordinator = room.coordinator();
    let _agent = room.agent("box", 1, &coordinator.url);
    let ask = |words: &[&str]| {
        coordinator
            .sweep(&room, &[words, &["--json"]].concat())
            .json()
    };

    let submitted = ask(&["submit", file]);
    has(&submitted["sweep"], SWEEP);
    let id = text(&submitted["sweep"], "id");
    coordinator.settled(&room, id);
    let job = format!("{id}/2/train");

    let list = ask(&["list"]);
    has(&list["sweeps"][0], SWEEP);
    let plan = ask(&["plan", file]);
    has(
        &plan,
        &[
            ("name", Text),
            ("trials_total", Count),
            ("jobs_total", Count),
            ("trials", List),
            ("hosts", List),
        ],
    );
    has(&plan["trials"][0]["verdicts"][0], VERDICT);
    let why = ask(&["why", &job]);
    has(
        &why,
        &[
            ("job", Text),
            ("state", Text),
            ("reason", Text),
            ("code", Text),
            ("verdicts", List),
        ],
    );
    assert!(text(&why, "reason").contains("exit 5"), "{why:#}");
    let results = ask(&["results", id]);
    has(
        &results,
        &[("sweep", Object), ("rows", List), ("summary", Object)],
    );
    let row = &results["rows"][0];
    has(
        row,
        &[
            ("trial", Text),
            ("params", Object),
            ("host", Text),
            ("simulated", Flag),
            ("held_out", Number),
        ],
    );
    let hosts = ask(&["hosts"]);
    let host = &hosts["hosts"][0];
    has(
        host,
        &[
            ("name", Text),
            ("state", Text),
            ("simulated", Flag),
            ("devices", List),
            ("last_seen_at", Time),
        ],
    );
    has(
        &host["devices"][0],
        &[
            ("id", Text),
            ("kind", Text),
            ("usable_mib", Number),
            ("slots", Count),
        ],
    );
    assert_eq!(ask(&["host", "show", "box"])["name"], "box");
    assert_eq!(ask(&["host", "drain", "box"])["drained"], true);
    assert_eq!(ask(&["host", "resume", "box"])["drained"], false);
    let checked = ask(&["check", file]);
    assert!(checked.is_object(), "{checked:#}");
}
