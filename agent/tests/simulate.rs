//! `sweep simulate` as the process that a shepherd starts: environment in; log, report, checkpoints and exit code out.
//! The program under test is this test binary itself: with the variable below `child` becomes the simulation.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const CHILD: &str = "SIMULATE_AS_CHILD";

/// Not a test: the child process of the others.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        std::process::exit(agent::simulate::run().into());
    }
}

struct Job {
    folder: tempfile::TempDir,
    card: Value,
    config: Value,
}

impl Job {
    fn new(kind: &str, device: Value, changes: Value) -> Self {
        let mut params = json!({
            "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.0, "seq_len": 7177,
            "response_len": 237, "optimizer": "adamw_8bit", "epochs": 3,
            "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
        });
        for (name, value) in changes.as_object().unwrap() {
            params[name] = value.clone();
        }
        let os = if device["spills"] == json!(true) {
            "windows"
        } else {
            "linux"
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            card: json!({
                "device": device, "host": "box", "os": os, "time_scale": 36_000.0, "argv": ["python3", "train.py"],
            }),
            config: json!({"kind": kind, "seed": 7, "attempt": 1, "params": params, "stage": {"passes": 3}}),
        }
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report.jsonl")
    }

    fn start(&self) -> Child {
        let config = self.folder.path().join("config.json");
        fs::write(&config, self.config.to_string()).unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .env("SWEEP_SIMULATE", self.card.to_string())
            .env("SWEEP_CONFIG", config)
            .env("SWEEP_REPORT", self.report())
            .env(
                "SWEEP_CHECKPOINT_DIR",
                self.folder.path().join("checkpoints"),
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self) -> Output {
        self.start().wait_with_output().unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.report()).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn last_checkpoint(&self) -> Option<u64> {
        let lines = self.lines();
        let last = lines
            .iter()
            .rfind(|line| line.get("checkpoint").is_some())?;
        last["step"].as_u64()
    }
}

fn rtx_3070_ti() -> Value {
    json!({
        "id": "sim-box-0", "name": "NVIDIA GeForce RTX 3070 Ti", "kind": "gpu", "backend": "cuda",
        "total_bytes": 8_589_934_592_u64, "usable_bytes": 8_214_124_954_u64, "held_bytes": 0, "spills": false,
        "slots": 1, "simulated": true, "speed": 1.03,
    })
}

fn rx_7900_xtx() -> Value {
    let bytes = 24_560_u64 << 20;
    json!({
        "id": "sim-tower-0", "name": "AMD Radeon RX 7900 XTX", "kind": "gpu", "backend": "rocm",
        "total_bytes": bytes, "usable_bytes": bytes, "held_bytes": 0, "spills": true,
        "slots": 1, "simulated": true, "speed": 1.0,
    })
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_training_run_ends_with_checkpoints_and_a_result() {
    let job = Job::new("train", rtx_3070_ti(), json!({"max_steps": 60}));
    let output = job.run();
    let (log, errors) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{log}\n{errors}");
    let ours = log.lines().find(|line| line.contains("simulate")).unwrap();
    assert!(
        ours.contains("all that follows is made up by `sweep simulate`"),
        "{log}"
    );
    let lines = job.lines();
    let result = &lines.last().unwrap()["result"];
    assert!(result["loss"].is_number() && result["simulated"] == json!(true));
    let memory = lines.iter().find_map(|line| line.get("memory")).unwrap();
    assert_eq!(memory["peak_allocated_mib"], json!(6658.0));
    let saved = lines
        .iter()
        .filter_map(|line| line.get("checkpoint")?.as_str());
    assert!(saved.clone().count() == 3 && saved.into_iter().all(|path| fs::metadata(path).is_ok()));
}

#[test]
fn out_of_memory_is_said_in_the_framework_s_words() {
    let job = Job::new("probe", rtx_3070_ti(), json!({"dropout": 0.1}));
    let output = job.run();
    let (_, errors) = words(&output);
    assert_eq!(output.status.code(), Some(1));
    let wanted = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 72.00 MiB. GPU 0 has a total \
                  capacity of 7.65 GiB of which ";
    assert!(errors.contains(wanted), "{errors}");
    assert!(job.lines().iter().all(|line| line.get("result").is_none()));
}

#[test]
fn a_windows_card_spills_and_says_so() {
    let job = Job::new("probe", rx_7900_xtx(), json!({"memory_fixes": []}));
    assert_eq!(job.run().status.code(), Some(0));
    let lines = job.lines();
    let memory = lines.iter().find_map(|line| line.get("memory")).unwrap();
    assert_eq!(
        (&memory["spilled"], &memory["simulated"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn asked_to_end_it_saves_and_a_second_start_goes_on_there() {
    let mut job = Job::new("train", rtx_3070_ti(), json!({}));
    // A step takes about a third of a second: the whole run would take 140 s.
    job.card["time_scale"] = json!(300.0);
    let running = job.start();
    let waited = Instant::now();
    while !job
        .lines()
        .iter()
        .any(|line| line.get("progress").is_some())
    {
        assert!(
            waited.elapsed() < Duration::from_secs(60),
            "no step was done"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let asked = Instant::now();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75));
    assert!(asked.elapsed() < Duration::from_secs(5));
    let saved = job.last_checkpoint().unwrap();
    assert!(saved >= 1);
    job.card["time_scale"] = json!(36_000.0);
    let output = job.run();
    let (log, _) = words(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(
        log.contains(&format!("goes on from the checkpoint of step {saved}")),
        "{log}"
    );
    assert_eq!(job.last_checkpoint(), Some(441));
}

#[test]
fn a_hang_ends_only_when_asked() {
    let hang = json!({"simulate_fault": "hang", "simulate_fault_at": 0.0});
    let job = Job::new("train", rtx_3070_ti(), hang);
    let mut running = job.start();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the fault `hang`")));
    std::thread::sleep(Duration::from_millis(200));
    assert!(running.try_wait().unwrap().is_none());
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(143));
}

#[test]
fn a_bad_setup_says_what_is_missing() {
    let mut job = Job::new("bake", rtx_3070_ti(), json!({}));
    job.card["device"]["simulated"] = json!(false);
    let output = job.run();
    assert_eq!(output.status.code(), Some(78));
    assert!(
        words(&output)
            .1
            .contains("device `sim-box-0` is not marked simulated")
    );
}
