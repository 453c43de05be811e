//! Files that travel with a sweep, through the whole system: what a job sees is what was submitted, on every host and in
//! every attempt, whatever becomes of the files, of the caches, of the coordinator's copies and of the coordinator itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use whole::{Agent, Coordinator, Host, Room, SOON, all_succeeded, attempts, job, text, until};

/// Says what it sees, then waits for the room's gate.
const WORK: &str = r#"
import json, os, sys, time
import helper
with open(os.environ["SWEEP_CONFIG"]) as file:
    config = json.load(file)
seen = {
    "attempt": config["attempt"], "trial": config["trial"], "helper": helper.WORD,
    "cases": open(config["stage"]["cases"]).read(), "guards": open(config["stage"]["guards"]).read(), "path": config["stage"]["cases"],
    "more": [open(path).read() for path in config["stage"].get("more", [])],
    "argument": open(sys.argv[1]).read(), "resources": config["resources"], "argv": sys.argv[2:],
    "writable": os.access(os.path.dirname(os.path.abspath(__file__)), os.W_OK) and os.getuid() != 0,
}
with open(os.path.join(os.environ["ROOM"], "seen"), "a") as file:
    file.write(json.dumps(seen) + "\n")
while not os.path.exists(os.path.join(os.environ["ROOM"], "gate")):
    time.sleep(0.02)
"#;

struct Stage {
    room: Room,
    coordinator: Coordinator,
}

impl Stage {
    fn new() -> Self {
        let room = Room::new();
        fs::create_dir_all(room.path().join("mine/cases")).expect("folders");
        for (name, text) in [
            ("mine/work.py", WORK),
            ("mine/helper.py", "WORD = 'first'\n"),
            ("cases/a.jsonl", "case one\n"),
            ("cases/b.jsonl", "case two\n"),
        ] {
            let path = match name.strip_prefix("cases/") {
                Some(name) => room.path().join("mine/cases").join(name),
                None => room.path().join(name),
            };
            fs::write(path, text).expect("a file");
        }
        let coordinator = room.coordinator();
        Self { room, coordinator }
    }

    fn file(&self, axes: &str, more: &str) -> PathBuf {
        let text = format!(
            "[sweep]\nname = \"travels\"\n{axes}\n[bake]\n\
             run = [\"{{python}}\", \"{{kit}}/work.py\", \"{{file:cases/b.jsonl}}\", \"{{seed}}\"]\n\
             cases = \"{{file:cases/a.jsonl}}\"\nguards = \"cases/b.jsonl\"\nincumbent = \"cases/b.jsonl\"\nsettings = {{ more = [\"{{file:cases/b.jsonl}}\"] }}\n\
             [place]\ndevice = \"cpu\"\nmemory = \"64 MiB\"\n{more}\n"
        );
        self.room.file("mine/travels.toml", &text)
    }

    /// With the folder `mine` as the kit.
    fn submit(&self, file: &Path) -> String {
        let url = self.coordinator.url.clone();
        let words = [
            "--coordinator",
            &url,
            "submit",
            file.to_str().expect("plain text"),
        ];
        let mut command = self.room.command(&words);
        command.env("SWEEP_KIT", self.room.path().join("mine"));
        self.room
            .start_command(command, &words)
            .finish(Duration::from_secs(60))
            .word()
    }

    fn agent(&self, name: &str) -> Agent {
        let host = Host {
            own_kit: false,
            data: Some(self.room.path().join(format!("data-{name}"))),
            ..Host::new(name, 1)
        };
        host.agent(&self.room, &self.coordinator.url)
    }

    fn seen(&self) -> Vec<Value> {
        let lines = self.room.lines("seen");
        lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    fn until_seen(&self, many: usize) {
        until("a job says what it sees", SOON, || {
            self.seen().len() >= many
        });
    }

    /// Every file of the coordinator's that travels.
    fn kept(&self) -> Vec<PathBuf> {
        files(&self.coordinator.data.join("files"))
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn overwrite(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("its owner may");
    fs::write(path, text).expect("a file");
}

#[test]
fn a_job_sees_what_was_submitted_on_every_host() {
    let stage = Stage::new();
    let file = stage.file("[axes]\nhost = [\"one\", \"two\"]", "");
    let sweep = stage.submit(&file);
    // Whatever becomes of them now.
    for path in files(&stage.room.path().join("mine")) {
        fs::write(&path, "raise SystemExit('changed')").expect("a file");
    }
    stage.room.open("gate");
    let _agents = [stage.agent("one"), stage.agent("two")];
    let document = stage.coordinator.settled(&stage.room, &sweep);
    all_succeeded(&document);
    let listed = document["files"].as_array().expect("a list").iter();
    let own: Vec<&Value> = listed.filter(|file| file["bundle"] == "files").collect();
    let is_cases = |file: &&&Value| file["name"] == "cases/a.jsonl";
    let cases = own.iter().find(is_cases).expect("it is listed");
    assert_eq!(cases["size"], 9);
    let shown = stage.coordinator.sweep(&stage.room, &["show", &sweep]);
    let digest = text(cases, "sha256");
    let said = format!("cases/a.jsonl (9 B, sha256 {})", &digest[..12]);
    let shown = shown.code(0).out.split_whitespace().collect::<Vec<_>>();
    assert!(shown.join(" ").contains(&said), "{shown:?}");
    let seen = stage.seen();
    assert_eq!(seen.len(), 2);
    for one in seen {
        assert_eq!(one["helper"], "first", "{one:#}");
        assert_eq!(one["cases"], "case one\n", "{one:#}");
        assert_eq!(one["more"], json!(["case two\n"]), "{one:#}");
        assert_eq!(one["argument"], "case two\n", "{one:#}");
        assert_eq!(one["guards"], "case two\n", "{one:#}");
        assert_eq!(one["resources"], json!({}), "{one:#}");
        assert_eq!(one["writable"], false, "{one:#}");
        assert!(text(&one, "path").ends_with("/cases/a.jsonl"), "{one:#}");
    }
}

#[test]
fn the_second_attempt_fetches_nothing_and_a_changed_cache_is_fetched_anew() {
    let stage = Stage::new();
    let sweep = stage.submit(&stage.file("[axes]\nx = [1, 2]", ""));
    let agent = stage.agent("one");
    stage.until_seen(1);
    // The coordinator has nothing to give any more.
    let away = stage.room.path().join("away");
    fs::rename(stage.coordinator.data.join("files"), &away).expect("moved");
    stage.room.open("gate");
    all_succeeded(&stage.coordinator.settled(&stage.room, &sweep));
    assert_eq!(stage.seen().len(), 2);

    fs::rename(&away, stage.coordinator.data.join("files")).expect("moved back");
    let cache = stage.room.path().join("data-one/agents/one/cache");
    let laid = files(&cache.join("bundles"));
    let changed = laid.iter().filter(|path| path.ends_with("cases/a.jsonl"));
    for path in changed {
        // In place: the cached content behind it changes, too.
        overwrite(path, "case 0ne\n");
    }
    let again = stage.submit(&stage.file("[axes]\nx = [3]", ""));
    all_succeeded(&stage.coordinator.settled(&stage.room, &again));
    assert_eq!(stage.seen()[2]["cases"], "case one\n");
    let said = agent.stderr();
    assert!(
        said.contains("a laid out file is not what it was"),
        "{said}"
    );
    assert!(said.contains("a cached file is not what it was"), "{said}");
}

#[test]
fn a_changed_copy_of_the_coordinator_is_refused_and_submitting_again_mends_it() {
    let stage = Stage::new();
    stage.room.open("gate");
    let file = stage.file("", "[retry]\ninterrupted = 1");
    let sweep = stage.submit(&file);
    let kept = stage.kept();
    let is_case = |path: &&PathBuf| fs::read(path).is_ok_and(|bytes| bytes == b"case one\n");
    let case = kept.iter().find(is_case).expect("the content is kept");
    overwrite(case, "case 1ne\n");
    let _agent = stage.agent("one");
    let document = stage.coordinator.settled(&stage.room, &sweep);
    let bake = job(&document, "/1/bake");
    assert_eq!(attempts(bake).len(), 2, "{bake:#}");
    for attempt in attempts(bake) {
        assert_eq!(attempt["outcome"], "interrupted", "{attempt:#}");
        let detail = text(attempt, "detail");
        assert!(
            detail.contains("could not be brought to this host"),
            "{detail}"
        );
        assert!(
            detail.contains("cases/a.jsonl is not what was submitted"),
            "{detail}"
        );
    }
    assert_eq!(stage.seen(), [] as [Value; 0]);
    let again = stage.submit(&file);
    all_succeeded(&stage.coordinator.settled(&stage.room, &again));
    // The content is right again, so the first one can be tried once more.
    stage
        .coordinator
        .sweep(&stage.room, &["retry", &sweep])
        .code(0);
    let document = stage.coordinator.settled(&stage.room, &sweep);
    assert_eq!(job(&document, "/1/bake")["outcome"], "succeeded");
}

/// Bytes that no two files share.
fn large(room: &Room, name: &str, seed: u8) {
    let bytes: Vec<u8> = (0..24_u32 << 20).map(|at| (at / 7) as u8 ^ seed).collect();
    fs::write(room.path().join(name), bytes).expect("a file");
}

fn heavy(room: &Room) -> PathBuf {
    for (name, seed) in [("a.bin", 1), ("b.bin", 2)] {
        large(room, name, seed);
    }
    let stages = "[train]\nrun = [\"sh\", \"-c\", \"cat $1 $2 | wc -c >$ROOM/size\", \"-\", \"{file:a.bin}\", \"{file:b.bin}\"]";
    room.sweep_file("heavy", "", stages)
}

#[test]
fn a_coordinator_that_is_killed_while_a_file_comes_keeps_nothing_of_it() {
    let room = Room::new();
    let file = heavy(&room);
    let mut coordinator = room.coordinator();
    let folder = coordinator.data.join("files");
    let parts = || {
        let all = files(&folder);
        all.iter()
            .any(|path| path.extension().is_some_and(|end| end == "tmp"))
    };
    let mut submit =
        coordinator.start_sweep(&room, &["submit", file.to_str().expect("plain text")]);
    until("a file is on its way", SOON, || {
        parts() || submit.has_ended()
    });
    coordinator.kill9();
    submit.kill9();
    coordinator.start_again();
    assert!(!parts(), "half a file stayed");
    // A fast machine may have got to its end: then it is all here.
    let list = coordinator.sweep(&room, &["list", "--json"]).json();
    let taken = list["sweeps"].as_array().map_or(0, Vec::len);
    let whole = files(&folder).len();
    assert!(taken == 0 || whole == 2, "{taken} sweeps of {whole} files");
    let sweep = coordinator.submit(&room, &file);
    let _agent = room.agent("box", 1, &coordinator.url);
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert_eq!(room.lines("size"), [(48 << 20).to_string()]);
}

#[test]
fn an_attempt_waits_for_its_files_through_a_kill_of_the_coordinator() {
    let room = Room::new();
    let mut coordinator = room.coordinator();
    let sweep = coordinator.submit(&room, &heavy(&room));
    let _agent = room.agent("box", 1, &coordinator.url);
    let cache = room.data().join("agents/box/cache/files");
    until("a file is on its way", SOON, || !files(&cache).is_empty());
    coordinator.kill9();
    std::thread::sleep(Duration::from_millis(300));
    coordinator.start_again();
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert_eq!(room.lines("size"), [(48 << 20).to_string()]);
}

#[test]
fn a_content_that_the_coordinator_has_lost_is_said_at_once() {
    let stage = Stage::new();
    let sweep = stage.submit(&stage.file("", "[retry]\ninterrupted = 0"));
    for path in stage.kept() {
        fs::remove_file(path).expect("a file");
    }
    let _agent = stage.agent("one");
    let document = stage.coordinator.settled(&stage.room, &sweep);
    let bake = job(&document, "/1/bake");
    assert_eq!(bake["outcome"], "interrupted", "{bake:#}");
    let detail = text(attempts(bake)[0], "detail");
    assert!(detail.contains("has lost the content of"), "{detail}");
}

#[test]
fn an_agent_that_is_killed_while_a_file_comes_begins_anew() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let sweep = coordinator.submit(&room, &heavy(&room));
    let mut agent = room.agent("box", 1, &coordinator.url);
    let cache = room.data().join("agents/box/cache");
    until("a file is on its way", SOON, || !files(&cache).is_empty());
    agent.kill9();
    agent.start();
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert_eq!(room.lines("size"), [(48 << 20).to_string()]);
    let unfinished = |path: &&PathBuf| path.to_string_lossy().contains(".part-");
    assert_eq!(files(&cache).iter().find(unfinished), None);
}

#[test]
fn a_cancel_reaches_an_attempt_whose_files_do_not_come() {
    let room = Room::new();
    let mut coordinator = room.coordinator();
    let sweep = coordinator.submit(&room, &heavy(&room));
    let _agent = room.agent("box", 1, &coordinator.url);
    let cache = room.data().join("agents/box/cache/files");
    until("a file is on its way", SOON, || !files(&cache).is_empty());
    coordinator.kill9();
    coordinator.start_again();
    coordinator.sweep(&room, &["cancel", &sweep]).code(0);
    let document = coordinator.settled(&room, &sweep);
    assert_eq!(job(&document, "/1/train")["outcome"], "cancelled");
}

#[test]
fn files_go_into_a_backup_and_damage_is_found() {
    let stage = Stage::new();
    let mut coordinator = {
        let sweep = stage.submit(&stage.file("", ""));
        stage.room.open("gate");
        let _agent = stage.agent("one");
        all_succeeded(&stage.coordinator.settled(&stage.room, &sweep));
        stage.coordinator
    };
    let room = stage.room;
    let data = coordinator.data.clone();
    assert_eq!(coordinator.stop(), Some(0));
    let plain = |path: &Path| path.to_str().expect("plain text").to_owned();
    let (from, to, back) = (
        plain(&data),
        room.path().join("backup"),
        room.path().join("back"),
    );
    let care = |data: &str, words: &[&str]| {
        room.sweep(&[&["--data", data, "coordinator"], words, &["--json"]].concat())
    };
    let said = care(&from, &["backup", &plain(&to)]).json();
    assert_eq!(said["files"], 5, "{said:#}");
    let said = care(&plain(&back), &["restore", &plain(&to)]).json();
    assert_eq!(said["files"], 5, "{said:#}");
    let sound = care(&plain(&back), &["verify"]).json();
    assert_eq!(
        (&sound["sound"], &sound["files"]),
        (&json!(true), &json!(5)),
        "{sound:#}"
    );
    let kept = files(&back.join("files"));
    overwrite(&kept[0], "x");
    fs::remove_file(&kept[1]).expect("a file");
    let said = care(&plain(&back), &["verify"]);
    assert_eq!(said.code, Some(1));
    said.shows(&["the content of its file", "missing or damaged"]);
    assert_ne!(
        care(&plain(&back), &["backup", &plain(&room.path().join("b2"))]).code,
        Some(0)
    );
}

#[test]
fn a_name_that_is_no_file_beside_the_sweep_is_shown_with_its_place() {
    let room = Room::new();
    std::os::unix::fs::symlink("/etc/hostname", room.path().join("away")).expect("a link");
    fs::create_dir(room.path().join("folder")).expect("a folder");
    let large = fs::File::create(room.path().join("large")).expect("a file");
    large.set_len((64 << 20) + 1).expect("room");
    for (name, says) in [
        ("none.txt", "there is no file `none.txt`"),
        ("folder", "`folder` is a folder"),
        ("large", "64.0 MiB"),
        ("away", "leads out of its folder"),
        ("../x", "leaves its folder"),
    ] {
        let run = format!("[train]\nrun = [\"cat\", \"{{file:{name}}}\"]");
        let file = room.sweep_file("bad", "", &run);
        for verb in ["check", "submit"] {
            let said = room.sweep(&["--data", "data", verb, file.to_str().expect("plain text")]);
            said.code(2).says(&[says, "bad.toml:4:16"]);
        }
    }
    assert!(!room.data().exists(), "something was stored");
}

#[test]
fn a_host_without_what_is_required_is_named_with_what_it_lacks() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let text_of = |require: &str| {
        format!(
            "[sweep]\nname = \"needs\"\n[model]\nname = \"Qwen/Qwen2.5-0.5B-Instruct\"\n[recipe]\ndataset = \"d1\"\n\
             rank = 8\n[bake]\nrun = [\"sh\", \"-c\", \"cp $SWEEP_CONFIG $ROOM/config; echo $1 $2 >$ROOM/paths\", \"-\", \
             \"{{model_path}}\", \"{{dataset}}\"]\n[place]\ndevice = \"cpu\"\nmemory = \"64 MiB\"\nrequire = [{require}]\n"
        )
    };
    let file = room.file("needs.toml", &text_of("\"dataset\", \"model\""));
    let plain = Host::new("plain", 1);
    let _plain = plain.agent(&room, &coordinator.url);
    let half = Host {
        more: "[datasets]\nd1 = \"/data/d1\"\n".into(),
        ..Host::new("half", 1)
    };
    let _half = half.agent(&room, &coordinator.url);
    let path = file.to_str().expect("plain text");
    let plan = coordinator.sweep(&room, &["plan", path]);
    plan.shows(&[
        "plain does not have dataset:d1",
        "plain does not have model:Qwen/Qwen2.5-0.5B-Instruct",
        "half does not have model:Qwen/Qwen2.5-0.5B-Instruct",
    ]);
    assert!(
        !plan.out.contains("half does not have dataset"),
        "{}",
        plan.out
    );
    let sweep = coordinator.submit(&room, &file);
    let why = coordinator.sweep(&room, &["why", &format!("{sweep}/1/bake")]);
    why.shows(&[
        "plain does not have the dataset `d1`",
        "half does not have the weights of the model `Qwen/Qwen2.5-0.5B-Instruct`",
    ]);
    let full = Host {
        more: "[datasets]\nd1 = \"/data/d1\"\n[models]\n\"Qwen/Qwen2.5-0.5B-Instruct\" = \"/data/qwen\"\n".into(),
        ..Host::new("full", 1)
    };
    let _full = full.agent(&room, &coordinator.url);
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert_eq!(room.lines("paths"), ["/data/qwen /data/d1"]);
    let config = fs::read_to_string(room.path().join("config")).expect("its configuration");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let wanted = json!({"dataset": "/data/d1", "model": "/data/qwen"});
    assert_eq!(config["resources"], wanted);
}

#[test]
fn a_sweep_without_files_leaves_none_and_a_run_in_one_process_brings_its_own() {
    let room = Room::new();
    let coordinator = room.coordinator();
    let sweep = coordinator.submit(
        &room,
        &room.sweep_file("none", "", "[train]\nrun = [\"true\"]"),
    );
    let agent = room.agent("box", 1, &coordinator.url);
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert!(!coordinator.data.join("files").exists());
    drop(agent);
    drop(coordinator);
    room.file("word.txt", "hello");
    // A word where a file may stand.
    let guards = r#"[bake]
run = ["sh", "-c", "grep '\"guards\":\"absent.jsonl\"' $SWEEP_CONFIG"]
guards = "absent.jsonl""#;
    let absent = room.sweep_file("absent", "", guards);
    let absent = absent.to_str().expect("plain text");
    room.sweep(&["check", absent])
        .code(0)
        .shows(&["no file absent.jsonl beside it"]);
    room.sweep(&["--data", "fresh", "run", absent]).code(0);
    let run = "[train]\nrun = [\"cmp\", \"{file:word.txt}\", \"word2.txt\"]\n[bake]\nafter = \"train\"\nrun = [\"true\"]";
    let run = run.replace(
        "word2.txt",
        room.path().join("word.txt").to_str().expect("plain text"),
    );
    let file = room.sweep_file("one", "", &run);
    let said = room.sweep(&["--data", "fresh", "run", file.to_str().expect("plain text")]);
    said.code(0);
}
