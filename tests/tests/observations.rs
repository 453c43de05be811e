//! What a program says of its memory: kept with its attempt, learned from, and written out again as the table of
//! measured rows that `sweep vram evaluate` reads. The card is no card, but its attempts are real ones.

use std::path::PathBuf;

use serde_json::Value;
use whole::{Coordinator, Host, Room, SOON, all_succeeded, until_some};

/// A row as the kit's probe writes it, less what this test does not look at. Under a limit it would have been less.
const SAYS: &str = r#"
import json, os, sys
rank = int(sys.argv[1])
row = {"model": "Qwen/Qwen2.5-0.5B-Instruct", "quant": "nf4", "rank": rank, "targets": ["q_proj"], "batch": 1,
       "seq_len": 512, "optimizer_steps": 2, "gpu": "NVIDIA A10", "status": "ok", "peak_allocated_mib": 1500.0 + rank,
       "peak_reserved_mib": 1600.0 + rank, "context_mib": 611.0}
if rank == 99:
    row["padding"] = "x" * 5000
with open(os.environ["SWEEP_REPORT"], "a") as report:
    report.write(json.dumps({"memory": row}) + "\n")
"#;

fn sweep_file(room: &Room, name: &str, ranks: &str) -> PathBuf {
    let text = format!(
        "[sweep]\nname = \"{name}\"\n[model]\nname = \"Qwen/Qwen2.5-0.5B-Instruct\"\nquant = \"nf4\"\n[recipe]\n\
         seq_len = 512\ntargets = [\"q_proj\"]\n[axes]\nrank = {ranks}\n[train]\n\
         run = [\"{{python}}\", \"{{kit}}/says.py\", \"{{rank}}\"]\n"
    );
    room.file(&format!("{name}.toml"), &text)
}

fn host() -> Host {
    let device = "[[device]]\nkind = \"gpu\"\nid = \"GPU-1\"\nname = \"NVIDIA A10\"\nbackend = \"cuda\"\n\
                  usable = \"22 GiB\"\n";
    Host {
        devices: device.to_owned(),
        ..Host::new("box", 1)
    }
}

fn rows(room: &Room, coordinator: &Coordinator, more: &[&str]) -> Vec<Value> {
    let words = [&["history", "--observations"], more].concat();
    let text = coordinator.sweep(room, &words).code(0).out.clone();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object on each line"))
        .collect()
}

/// The context that a verdict for another recipe on that card counts with.
fn context(room: &Room, coordinator: &Coordinator, file: &str) -> Option<f64> {
    let plan = coordinator.sweep(room, &["plan", file, "--json"]).json();
    let terms = plan["trials"][0]["verdicts"][0]["terms"].as_array()?;
    let context = terms.iter().find(|term| term["name"] == "context")?;
    context["mib"].as_f64()
}

#[test]
fn what_programs_observed_is_kept_learned_and_written_out() {
    let room = Room::new();
    room.program("says.py", SAYS);
    let mut coordinator = room.coordinator();
    let _agent = host().agent(&room, &coordinator.url);
    let other = sweep_file(&room, "other", "[64]");
    let other = other.to_str().expect("plain text");
    until_some("the host is there", SOON, || {
        context(&room, &coordinator, other)
    });
    assert_ne!(context(&room, &coordinator, other), Some(611.0));

    let sweep = coordinator.submit(&room, &sweep_file(&room, "said", "[8, 16, 99]"));
    all_succeeded(&coordinator.settled(&room, &sweep));
    assert_eq!(context(&room, &coordinator, other), Some(611.0));

    for again in [false, true] {
        if again {
            coordinator.kill9();
            coordinator.start_again();
        }
        // The third one said more than a record holds.
        let all = rows(&room, &coordinator, &[]);
        let mut ranks: Vec<_> = all.iter().map(|row| row["rank"].as_u64()).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [Some(8), Some(16)]);
        for row in &all {
            let trial = if row["rank"] == 8 { 1 } else { 2 };
            assert_eq!(row["attempt"], format!("{sweep}/{trial}/train/1"));
            assert_eq!(
                (&row["host"], &row["outcome"]),
                (&"box".into(), &"succeeded".into())
            );
            assert_eq!(row["context_mib"], 611.0);
            assert_eq!(row["date"].as_str().map(str::len), Some(10));
        }
        let one = rows(&room, &coordinator, &["--limit", "1", "--sweep", &sweep]);
        assert_eq!(one.len(), 1);
    }

    // What was written out is what the memory model reads.
    let table = coordinator
        .sweep(&room, &["history", "--observations"])
        .code(0)
        .out
        .clone();
    let table = room.file("rows.jsonl", &table);
    let words = [
        "vram",
        "evaluate",
        table.to_str().expect("plain text"),
        "--json",
    ];
    let evaluated = coordinator.sweep(&room, &words).json();
    assert_eq!(evaluated["summary"]["n"], 2, "{evaluated:#}");
}
