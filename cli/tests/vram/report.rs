//! What needs a coordinator's knowledge: `sweep vram report` and `sweep vram predict --ask`.

use std::path::Path;

use serde_json::{Value, json};
use vram::Knowledge;

use crate::said::*;

#[test]
fn a_report_needs_no_coordinator_and_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let (data, svg) = (folder.path().join("data"), folder.path().join("a.svg"));
    let library = vram::report(&Knowledge::seeds());
    let shipped = json_of(&ask(&["vram", "report", "--shipped", "--json"]));
    has(&shipped, &["rows", "groups", "outliers"]);
    has(
        &shipped["rows"][0],
        &[
            "host",
            "family",
            "device",
            "mode",
            "backend",
            "source",
            "measured_mib",
            "computed_mib",
            "corrected_mib",
        ],
    );
    has(
        &shipped["groups"][0],
        &["host", "family", "mode", "computed", "corrected"],
    );
    assert_eq!(
        shipped["rows"].as_array().map(Vec::len),
        Some(library.rows.len())
    );
    assert_eq!(shipped["groups"], read_back(&library.groups));

    let words = [
        "--data",
        plain(&data),
        "vram",
        "report",
        "--svg",
        plain(&svg),
    ];
    let output = ask(&words);
    let text = text_of(&output);
    assert!(text.contains("measured peaks"), "{text}");
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("only the shipped measurements"), "{note}");
    assert!(!data.exists());
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(drawn.matches("<circle").count(), library.rows.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let nowhere = folder.path().join("none/a.svg");
    let output = ask(&["vram", "report", "--shipped", "--svg", plain(&nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none/a.svg"));
    for words in [
        &["vram", "report"][..],
        &["vram", "predict", "--model", "gemma-3-4b-it", "--ask"],
    ] {
        let output = ask(&[&["--coordinator", "http://127.0.0.1:1"], words].concat());
        assert_eq!(output.status.code(), Some(3), "{words:?}");
    }
}

const FLEET: &str = r#"
time_scale = 100000
seed = 1
[[host]]
name = "box"
os = "linux"
[[host.device]]
name = "NVIDIA GeForce RTX 3070 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.65 GiB"
[[host.device]]
name = "NVIDIA GeForce RTX 3060 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.66 GiB"
held = "563 MiB"
[[host.device]]
name = "NVIDIA GeForce RTX 3060 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.66 GiB"
held = "563 MiB"
"#;

const SWEEP: &str = r#"
[sweep]
name = "night"
[train]
run = ["true"]
[place]
device = "gpu"
memory = "1 MiB"
"#;

#[test]
fn a_coordinator_answers_for_the_devices_of_its_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (fleet, sweep, data) = (
        file("fleet.toml", FLEET),
        file("night.toml", SWEEP),
        folder.path().join("data"),
    );
    let ask_of = |data: &Path, words: &[&str]| {
        let all = predict(&[&["--data", plain(data), "--ask"], words].concat());
        ask(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // Nothing is there: nothing but the shipped measurements is known, and nothing is made.
    let none = json_of(&ask_of(&data, &["--json"]));
    assert_eq!(
        none["predictions"].as_array().map(Vec::len),
        Some(vram::known_cards().len())
    );
    assert!(!data.exists());

    let run = [
        "--data",
        plain(&data),
        "run",
        plain(&sweep),
        "--fleet",
        plain(&fleet),
    ];
    assert_eq!(ask(&run).status.code(), Some(0));
    let answer = json_of(&ask_of(&data, &["--json"]));
    let mut all = answer["predictions"].as_array().unwrap().clone();
    all.sort_by_key(|one| one["devices"].as_u64());
    let of = |one: &Value| {
        json!([
            one["host"],
            one["device"],
            one["devices"],
            one["held_mib"],
            one["simulated"]
        ])
    };
    assert_eq!(
        of(&all[0]),
        json!(["box", "NVIDIA GeForce RTX 3070 Ti", 1, 0.0, true])
    );
    assert_eq!(
        of(&all[1]),
        json!(["box", "NVIDIA GeForce RTX 3060 Ti", 2, 563.0, true])
    );
    assert_eq!(all.len(), 2);
    let text = text_of(&ask_of(&data, &[]));
    assert!(
        text.contains("2 x RTX 3060 Ti *") && text.contains("would fit:"),
        "{text}"
    );

    // The same card by its name: nothing real was learned meanwhile.
    let here = json_of(&ask_prediction(&["--device", "3070 Ti", "--json"]));
    assert_eq!(
        json_of(&ask_of(&data, &["--device", "3070 Ti", "--json"])),
        here
    );
    let known = json_of(&ask(&["--data", plain(&data), "vram", "report", "--json"]));
    assert_eq!(
        known["groups"],
        read_back(vram::report(&Knowledge::seeds()).groups)
    );
}
