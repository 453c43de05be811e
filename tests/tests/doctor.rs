//! `sweep agent doctor` as a person meets it: a sound host, and hosts with something wrong. The self-test is a stand-in
//! that needs no library; the kit's own tests run the real one.

use std::time::Duration;

use serde_json::Value;
use whole::{Room, Said, text};

/// Says what the real one says, and what devices it would see.
const SELFTEST: &str = r#"
import json, os, sys
seen = os.environ.get("CUDA_VISIBLE_DEVICES")
checks = [{"name": "packages", "ok": True, "torch": "9.9", "bitsandbytes": None, "seconds": 0.1},
          {"name": "kernel", "ok": seen == "-1" and sys.argv[1:] == ["--stack", "cpu"], "message": f"saw {seen} {sys.argv[1:]}"},
          {"name": "nf4", "ok": False, "message": "No module named 'bitsandbytes'"}]
print("a warning of some library")
print(json.dumps({"python": "3.12.1", "interpreter": sys.executable, "checks": checks}))
"#;

fn doctor(room: &Room, host: &str, more: &[&str]) -> Said {
    let file = room.file("host.toml", host);
    let file = file.to_str().expect("plain text");
    let words = [&["agent", "doctor", "--config", file], more].concat();
    room.start(&words).finish(Duration::from_secs(60))
}

fn check<'d>(document: &'d Value, name: &str) -> &'d Value {
    let all = document["checks"].as_array().expect("a list");
    let found = all.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no check `{name}` in {document:#}"))
}

#[test]
fn a_host_is_examined_as_its_agent_would_find_it() {
    let room = Room::new();
    room.program("selftest.py", SELFTEST);
    let coordinator = room.coordinator();
    room.file("token", "s3cret-of-the-doctor");
    let (root, url) = (room.path().display(), &coordinator.url);
    let sound = format!(
        "name = \"box\"\nkit = \"{root}/kit\"\ndatasets = {{ mine = \"{root}\" }}\nsecrets = {{ TOKEN = \"{root}/token\" }}\n[[device]]\nkind = \"cpu\"\n"
    );
    let said = doctor(&room, &sound, &["--coordinator", url, "--json"]);
    let document = said.code(0).json();
    assert_eq!(text(&document, "host"), "box");
    assert_eq!(document["state"], "warning", "{document:#}");
    for name in [
        "folder",
        "clock",
        "data set mine",
        "cpu python",
        "cpu packages",
        "cpu kernel",
        "coordinator",
    ] {
        assert_eq!(check(&document, name)["state"], "ok", "{document:#}");
    }
    assert!(text(check(&document, "cpu packages"), "says").contains("torch 9.9"));
    assert_eq!(check(&document, "cpu nf4")["state"], "warning");
    let secret = check(&document, "secret TOKEN");
    assert_eq!(
        secret["state"], "warning",
        "everybody may read it: {secret:#}"
    );
    assert!(text(secret, "fix").starts_with("chmod 600 "));
    assert!(!document.to_string().contains("s3cret"), "{document:#}");

    // What is wrong, in words, with what to do; and the exit code says so.
    let wrong = format!(
        "name = \"box\"\nkit = \"{root}/kit\"\npython = \"/nowhere/python\"\ndatasets = {{ mine = \"{root}/gone\" }}\n[[device]]\nkind = \"cpu\"\n\
         [[device]]\nkind = \"gpu\"\nid = \"0000:ff:00.0\"\nname = \"RTX 3070 Ti\"\nbackend = \"cuda\"\nusable = \"7550 MiB\"\n"
    );
    let said = doctor(&room, &wrong, &["--coordinator", "http://127.0.0.1:1"]);
    let said = said
        .code(1)
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "host box: failed",
        "data set mine failed",
        "device 0000:ff:00.0 failed",
        "cpu python failed",
        "coordinator failed",
        "cpu python: install Python, or name the environment's interpreter",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
}

#[test]
fn a_self_test_that_breaks_is_told_with_its_last_words() {
    let room = Room::new();
    room.program(
        "selftest.py",
        "import sys\nsys.exit('the driver is too old')\n",
    );
    let root = room.path().display();
    let host = format!("name = \"box\"\nkit = \"{root}/kit\"\n[[device]]\nkind = \"cpu\"\n");
    let document = doctor(&room, &host, &["--json"]);
    let document: Value = serde_json::from_str(&document.code(1).out).expect("JSON");
    let python = check(&document, "cpu python");
    assert_eq!(python["state"], "failed");
    assert!(
        text(python, "says").contains("the driver is too old"),
        "{python:#}"
    );
    assert_eq!(check(&document, "coordinator")["state"], "warning");
}
