//! The shipped fleet file against the memory model: what a verdict promises is what the simulation of those cards
//! does, and the whole A/B sweep fits into the wall time that the fleet's time scale is chosen for.

use std::path::Path;

use agent::config::{DeviceConfig, HostConfig};
use agent::fleet::Fleet;
use agent::simulate::{Card, Config, Ending, Fit, Script, peak, script};
use jobs::Kind;
use serde_json::{Value, json};
use vram::{Knowledge, Settings, VerdictKind, Workload};

fn home() -> Fleet {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/fleets/home.toml");
    Fleet::read(&path).unwrap()
}

fn card(host: &HostConfig, device: &DeviceConfig) -> Card {
    let text = json!({
        "device": device.info(), "host": host.name, "os": host.os, "time_scale": host.time_scale,
    });
    Card::parse(&text.to_string()).unwrap()
}

fn cards(fleet: &Fleet) -> Vec<Card> {
    let hosts = fleet.hosts.iter();
    hosts
        .flat_map(|host| host.devices.iter().map(move |device| card(host, device)))
        .collect()
}

fn settings(changes: &Value) -> Settings {
    let mut all = json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.0, "seq_len": 7177, "rslora": true,
        "response_len": 237, "optimizer": "adamw_8bit", "epochs": 3,
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    });
    for (name, value) in changes.as_object().unwrap() {
        all[name] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn config(kind: Kind, params: Settings) -> Config {
    Config {
        kind,
        seed: 7,
        attempt: 1,
        params,
        stage: None,
    }
}

fn verdict(kind: Kind, params: &Settings, card: &Card, knowledge: &Knowledge) -> VerdictKind {
    let workload = Workload::new(kind.mode(params, None), params, None).unwrap();
    let estimate = vram::estimate(&workload, &card.class(), knowledge);
    vram::verdict(estimate, &card.class(), &card.load()).kind
}

/// Recipes of the shipped sweeps and between them.
fn recipes() -> Vec<Settings> {
    let mut all = Vec::new();
    for rank in (16..=256).step_by(8) {
        for dropout in [0.0, 0.1] {
            for more in [
                json!({}),
                json!({"quant": "bf16"}),
                json!({"dora": true}),
                json!({"seq_len": 4096}),
            ] {
                let mut changes = json!({"rank": rank, "dropout": dropout});
                changes
                    .as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                all.push(settings(&changes));
            }
        }
    }
    all
}

#[test]
fn the_home_fleet_has_its_three_hosts_and_all_are_simulated() {
    let fleet = home();
    let names: Vec<(&str, usize)> = fleet
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.devices.len()))
        .collect();
    assert_eq!(names, [("box", 2), ("tower", 1), ("rig", 3)]);
    for host in &fleet.hosts {
        assert!(host.simulated && host.devices.iter().all(|device| device.simulated));
        assert_eq!(host.info().labels, ["dataset:2026-09-21"]);
    }
    assert_eq!(
        fleet.host("box").unwrap().devices[1].held,
        vram::Bytes(563 << 20)
    );
}

#[test]
fn what_the_verdict_says_is_what_the_simulation_does() {
    let (fleet, knowledge) = (home(), Knowledge::seeds());
    let mut seen = [0; 3];
    for card in cards(&fleet) {
        for params in recipes() {
            for kind in Kind::ALL {
                let workload = Workload::new(kind.mode(&params, None), &params, None).unwrap();
                let fit = peak(&workload, &card, 28).fit(&card);
                let (wanted, at) = match verdict(kind, &params, &card, &knowledge) {
                    VerdictKind::Fits => (Fit::Fits, 0),
                    VerdictKind::TooLarge => (Fit::OutOfMemory, 1),
                    VerdictKind::Spills => (Fit::Spills, 2),
                    VerdictKind::Uncertain | VerdictKind::Offloads => continue,
                };
                seen[at] += 1;
                assert_eq!(fit, wanted, "{} {kind} {params:?}", card.device.name);
            }
        }
    }
    assert!(seen[0] > 1000 && seen[1] > 50, "{seen:?}");
}

fn wall(script: &Script, fleet: &Fleet) -> f64 {
    script.steps.last().unwrap().at / fleet.time_scale
}

#[test]
fn a_trial_of_the_ab_sweep_takes_seconds() {
    let fleet = home();
    for card in cards(&fleet) {
        let params = settings(&json!({"rank": 96, "dropout": 0.1}));
        let mut total = 0.0;
        for kind in Kind::ALL {
            let script = script(&config(kind, params.clone()), &card, fleet.seed, 0).unwrap();
            let tight = card.device.name.contains("3060");
            assert!(
                tight || script.ending == Ending::Exit(0),
                "{} {kind}",
                card.device.name
            );
            total += wall(&script, &fleet);
        }
        // Six trials on six devices, of which two are too small for some: three rounds at most.
        assert!(total < 20.0, "{}: {total}", card.device.name);
    }
}
