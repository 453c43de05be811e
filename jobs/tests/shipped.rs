//! Every sweep that the project ships is parsed and planned, and has the cells that its question needs.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::Path;

use jobs::plan::load;
use jobs::{Kind, Plan};
use serde_json::json;

fn plan(name: &str) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    load(name, &fs::read(path).unwrap()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_shipped_sweep_is_planned() {
    let mut found = 0;
    for entry in fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") && !["Cargo.toml", "clippy.toml"].contains(&name.as_str()) {
            let plan = plan(&name);
            assert_eq!(format!("{}.toml", plan.spec.name), name);
            assert!(!plan.spec.about.is_empty() && plan.jobs() > 0);
            found += 1;
        }
    }
    assert!(found >= 5, "{found} sweeps");
}

#[test]
fn the_memory_model_reads_every_trial() {
    for name in [
        "dropout-ab.toml",
        "rank-ceiling.toml",
        "quant-dora.toml",
        "release-bake.toml",
        "local-digits.toml",
    ] {
        let plan = plan(name);
        for trial in &plan.trials {
            for kind in plan.kinds() {
                let settings = plan.settings(trial);
                let stage = plan.spec.stage(kind).map(|stage| &stage.settings);
                let mode = kind.mode(&settings, stage);
                let read = vram::Workload::new(mode, &settings, plan.spec.place.memory);
                assert!(read.is_ok(), "{name} {kind}: {:?}", read.err());
            }
        }
    }
}

#[test]
fn dropout_ab_has_both_arms_at_each_rank() {
    let plan = plan("dropout-ab.toml");
    let cells: Vec<_> = plan
        .trials
        .iter()
        .map(|trial| json!(trial.params))
        .collect();
    assert_eq!(
        cells,
        [
            json!({"rank": 96, "dropout": 0.0}),
            json!({"rank": 96, "dropout": 0.1}),
            json!({"rank": 104, "dropout": 0.0}),
            json!({"rank": 104, "dropout": 0.1}),
            json!({"rank": 112, "dropout": 0.0}),
            json!({"rank": 112, "dropout": 0.1}),
        ]
    );
    assert_eq!(plan.spec.place.compare.as_deref(), Some("dropout"));
    assert_eq!(plan.kinds().collect::<Vec<_>>(), Kind::ALL);
    let settings = plan.settings(&plan.trials[0]);
    assert_eq!(settings["model"], "unsloth/gemma-3-4b-it");
    assert_eq!(settings["quant"], "nf4");
    assert_eq!(settings["alpha"], 32);
}

#[test]
fn rank_ceiling_asks_every_host_at_every_rank() {
    let plan = plan("rank-ceiling.toml");
    assert_eq!(plan.trials.len(), 21);
    assert_eq!(plan.jobs(), 21);
    assert!(plan.spec.stage(Kind::Probe).unwrap().probe.always_on_card());
}

#[test]
fn smollm_routing_runs_on_any_device_and_probes_measures_and_bakes_each_trial() {
    let plan = plan("smollm-routing.toml");
    assert_eq!((plan.trials.len(), plan.jobs()), (4, 12));
    assert_eq!(plan.spec.device(), None);
    let bake = plan.spec.stage(Kind::Bake).unwrap();
    assert_eq!(bake.settings["incumbent"], "base");
}

#[test]
fn the_untried_levers_differ_in_one_thing_each() {
    let plan = plan("lr-sweep.toml");
    let rates: std::collections::BTreeSet<String> = plan
        .trials
        .iter()
        .map(|trial| plan.settings(trial)["learning_rate"].to_string())
        .collect();
    assert_eq!((plan.trials.len(), rates.len()), (8, 4));
    let plan = self::plan("untried.toml");
    assert_eq!(plan.trials.len(), 6);
    assert!(plan.trials.iter().all(|trial| trial.params.len() == 1));
}

#[test]
fn local_digits_needs_no_gpu_and_says_its_memory() {
    let plan = plan("local-digits.toml");
    assert_eq!(plan.trials.len(), 8);
    assert_eq!(plan.spec.device(), Some(jobs::spec::DeviceKind::Cpu));
    assert!(plan.spec.place.memory.is_some());
}
