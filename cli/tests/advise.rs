//! `sweep plan FILE --advise` without a coordinator: what the program ships with, on a fleet that nobody has. Ends with
//! exit code 0 whatever fits; a wrong file is refused before anything is searched.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const FLEET: &str = r#"
[[host]]
name = "box"
os = "linux"
[[host.device]]
name = "NVIDIA GeForce RTX 3070 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.65 GiB"

[[host]]
name = "shed"
os = "linux"
[[host.device]]
name = "NVIDIA GeForce RTX 3070 Ti"
backend = "cuda"
total = "8192 MiB"
usable = "7.65 GiB"
held = "900 MiB"
"#;

/// Four trials of two recipes: memory does not depend on the learning rate.
const FILE: &str = r#"
[sweep]
name = "ceiling"
[model]
name = "unsloth/gemma-3-4b-it"
quant = "nf4"
[recipe]
seq_len = 7177
response_len = 237
memory_fixes = ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"]
optimizer = "adamw_8bit"
rank = 112
[axes]
dropout = [0.0, 0.1]
learning_rate = [1e-4, 2e-4]
[train]
run = ["true"]
"#;

fn plan(folder: &Path, file: &str, fleet: &str, words: &[&str]) -> Output {
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
    for variable in ["SWEEP_DATA", "SWEEP_COORDINATOR", "SWEEP_LOG", "SWEEP_KIT"] {
        command.env_remove(variable);
    }
    command.arg("plan").arg(write("ceiling.toml", file));
    command.arg("--fleet").arg(write("fleet.toml", fleet));
    command.args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_str(&said(output)).unwrap()
}

#[test]
fn one_advice_for_a_recipe_and_a_class_of_card() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |words: &[&str]| plan(folder.path(), FILE, FLEET, words);
    let asked = document(&plan(&["--advise", "--json"]));
    assert_eq!(
        (&asked["advised"], &asked["not_advised"]),
        (&json!(true), &json!([]))
    );
    // The first recipe fits one of the two cards of its class: nothing is to be changed.
    let [advice] = asked["advice"].as_array().unwrap().as_slice() else {
        panic!("{asked:#}");
    };
    assert_eq!(advice["trials"], json!([3, 4]));
    assert_eq!(advice["hosts"], json!(["box", "shed"]));
    assert_eq!(
        (
            &advice["kind"],
            &advice["simulated"],
            &advice["fits_elsewhere"]
        ),
        (&json!("train"), &json!(true), &json!(false))
    );
    // On the roomiest of them, and the same document as `vram advise` gives.
    let answer = &advice["answer"];
    assert_eq!(answer["room_mib"].as_f64().unwrap().round(), 7834.0);
    let first = &answer["suggestions"][0];
    assert_eq!(first["change"], "paged optimizer state");
    assert_eq!(first["settings"], json!({"optimizer": "paged_adamw_8bit"}));
    assert_eq!(
        (&first["keeps_arithmetic"], &first["stream"]),
        (&json!(true), &json!("shapes"))
    );
    for field in [
        "need_mib",
        "band_mib",
        "predicted_allocated_mib",
        "predicted_reserved_mib",
    ] {
        assert!(
            first[field].as_f64().is_some_and(|mib| mib > 0.0),
            "{field}: {first:#}"
        );
    }
    let tried = answer["tried"].as_array().unwrap();
    let failed = |one: &&Value| one["status"] == "oom" && one["oom_wanted_mib"].is_f64();
    assert!(tried.iter().any(|one| failed(&one)), "{tried:#?}");
    assert!(tried.iter().any(|one| one["change"] == first["change"]));

    let text = said(&plan(&["--advise"]));
    for part in [
        "\ntrials 3-4 (the first: dropout=0.1 learning_rate=0.0001): fit no known device\n",
        "  RTX 3070 Ti * of box, shed: too_large, needs 7912±78 of 7834 MiB\n",
        "    paged optimizer state: needs 7103±90 MiB, computes the same\n",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn without_the_flag_only_what_fits_nowhere_is_helped() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |words: &[&str]| plan(folder.path(), FILE, FLEET, words);
    let document = document(&plan(&["--json"]));
    assert_eq!(
        (&document["advised"], &document["advice"]),
        (&json!(false), &json!([]))
    );
    let would_fit: Vec<bool> = document["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["would_fit"].is_string())
        .collect();
    assert_eq!(would_fit, [false, false, true, true]);
    let text = said(&plan(&[]));
    assert!(text.contains("--advise says what would fit"), "{text}");
}

#[test]
fn a_search_that_would_take_too_long_is_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ranks: Vec<String> = (0..26).map(|n| (2000 + 8 * n).to_string()).collect();
    let file = FILE
        .replace("rank = 112\n", "")
        .replace(
            "dropout = [0.0, 0.1]",
            &format!("rank = [{}]", ranks.join(", ")),
        )
        .replace("seq_len = 7177", "seq_len = 512")
        .replace("learning_rate = [1e-4, 2e-4]\n", "");
    let output = plan(folder.path(), &file, FLEET, &["--advise", "--json"]);
    let cut = document(&output);
    assert_eq!(cut["advice"].as_array().map(Vec::len), Some(24));
    assert_eq!(cut["not_advised"], json!([25, 26]));
    let text = said(&plan(folder.path(), &file, FLEET, &["--advise"]));
    assert!(text.contains("no advice for 2 trials"), "{text}");
}

#[test]
fn a_wrong_file_is_refused_with_the_flag_too() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = FILE.replace("seq_len =", "seq_lem =");
    let output = plan(folder.path(), &wrong, FLEET, &["--advise"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
