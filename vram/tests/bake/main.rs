//! The memory of evaluations: against what was measured, and the rules that hold whatever is measured.

mod measured;
mod rules;

use serde_json::{Value, json};
use vram::{
    Backend, Bake, Bytes, DeviceClass, DeviceLoad, Knowledge, Term, VerdictKind, Workload,
    estimate, verdict_of,
};

fn bake(settings: Value) -> Workload {
    let settings = serde_json::from_value(settings).unwrap();
    Workload::new(vram::Mode::Bake, &settings, None).unwrap()
}

fn gguf(model: &str, bytes: u64, context_len: u64) -> Workload {
    bake(json!({"model": model, "gguf_bytes": bytes, "context_len": context_len}))
}

/// The same work on so many equal cards.
fn on_cards(workload: &Workload, cards: u32) -> Workload {
    let mut settings = workload.settings.clone();
    settings.insert("cards".into(), json!(cards));
    Workload::new(workload.mode, &settings, None).unwrap()
}

/// `qwen3.8-iq4xs:latest`, 15.18 GB (rig.json, `model`).
fn rig(context_len: u64, cards: u32) -> Workload {
    on_cards(&gguf("qwen3.8-27b", 15_180_000_000, context_len), cards)
}

fn mib(terms: &[Term]) -> f64 {
    terms.iter().map(|term| term.bytes.mib()).sum()
}

fn term(terms: &[Term], name: &str) -> f64 {
    let mut named = terms.iter().filter(|term| term.name == name);
    named.next().map_or(0.0, |term| term.bytes.mib())
}

fn cards(workload: &Workload) -> Vec<Vec<Term>> {
    Bake::of(workload).unwrap().cards()
}

/// On all cards, without the driver's context.
fn resident(workload: &Workload) -> f64 {
    cards(workload).iter().map(|card| mib(card)).sum()
}

#[track_caller]
fn within(computed: f64, measured: f64, tolerance: f64) {
    let error = computed / measured - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{computed:.0} against {measured:.0}: {:+.1} %",
        error * 100.0
    );
}

fn card(name: &str, spills: bool) -> DeviceClass {
    DeviceClass {
        name: name.into(),
        backend: Backend::Cuda,
        os: "linux".into(),
        spills,
        simulated: false,
    }
}

fn ask(workload: &Workload, room: f64, class: &DeviceClass) -> VerdictKind {
    let load = DeviceLoad {
        usable: Bytes::from_mib(room),
        held: Bytes::ZERO,
    };
    let known = estimate(workload, class, &Knowledge::default());
    verdict_of(workload, known, class, &load).kind
}
