//! How long the model takes: one estimate, learning, a replay, a rehearsal.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use vram::{
    Backend, Bytes, DeviceClass, Knowledge, Mode, Observation, Observed, ReplaySettings, Settings,
    Stream, Workload, estimate, replay,
};

const STREAM: &[u8] = include_bytes!("../fixtures/gemma3-4b-r112-2steps.gz");

fn class() -> DeviceClass {
    DeviceClass {
        name: "NVIDIA GeForce RTX 3070 Ti".into(),
        backend: Backend::Cuda,
        os: "linux".into(),
        spills: false,
        simulated: false,
    }
}

fn recipe(rank: u64) -> Settings {
    let value = json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": rank, "seq_len": 7177, "response_len": 237,
        "optimizer": "adamw_8bit",
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    });
    serde_json::from_value(value).unwrap_or_default()
}

fn observation(at: u64) -> Observation {
    Observation {
        settings: recipe(8 + at % 64 * 8),
        mode: Mode::Train,
        host: "box".into(),
        class: class(),
        observed: Observed::Ok,
        allocated: Some(Bytes::from_mib(6000.0 + at as f64 / 100.0)),
        reserved: None,
        room: Bytes::from_mib(7833.6),
        source: at.to_string(),
        noted: vram::Noted::default(),
    }
}

fn benches(criterion: &mut Criterion) {
    let knowledge = Knowledge::seeds();
    let Ok(workload) = Workload::new(Mode::Train, &recipe(104), None) else {
        return;
    };
    let class = class();
    criterion.bench_function("one estimate of a known recipe", |bench| {
        bench.iter(|| estimate(black_box(&workload), &class, &knowledge));
    });
    criterion.bench_function("learning from 10,000 observations", |bench| {
        bench.iter(|| {
            let mut knowledge = Knowledge::default();
            for at in 0..10_000 {
                knowledge.learn(observation(at));
            }
            estimate(&workload, &class, &knowledge)
        });
    });
    let Ok(stream) = Stream::read(STREAM) else {
        return;
    };
    criterion.bench_function("replay of 161,000 events", |bench| {
        bench.iter(|| replay(black_box(&stream), ReplaySettings::default()));
    });
    criterion.bench_function("reading a stream of 161,000 events", |bench| {
        bench.iter(|| Stream::read(black_box(STREAM)));
    });
}

criterion_group!(all, benches);
criterion_main!(all);
