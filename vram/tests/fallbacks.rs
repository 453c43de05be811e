//! What is said where the usual sources do not reach: far beyond what was measured, where no single change is enough,
//! and for a model that nobody knows.

#[test]
fn what_no_single_change_saves_gets_several_together() {
    let settings: vram::Settings = serde_json::from_value(serde_json::json!({
        "model": "unsloth/gemma-3-4b-it", "quant": "nf4", "rank": 4096, "rslora": true, "alpha": 32,
        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "seq_len": 7177, "response_len": 237, "memory_fixes": [], "optimizer": "adamw_8bit",
    }))
    .expect("settings");
    let workload = vram::Workload::new(vram::Mode::Train, &settings, None).expect("a workload");
    let class = vram::DeviceClass {
        name: "NVIDIA GeForce RTX 5060 Ti".into(),
        backend: vram::Backend::Cuda,
        os: "linux".into(),
        spills: false,
        simulated: false,
    };
    let load = vram::DeviceLoad {
        usable: vram::Bytes::from_mib(15_872.0),
        held: vram::Bytes::ZERO,
    };
    let knowledge = vram::Knowledge::seeds();
    // Far beyond what was measured the shapes are believed, not a line drawn through small ranks.
    let estimate = vram::estimate(&workload, &class, &knowledge).expect("a known model");
    assert!(estimate.allocated.mib() > 80_000.0, "{estimate:?}");
    let found = vram::would_fit(&workload, &class, &load, &knowledge);
    let first = found.first().expect("something fits");
    assert!(
        first.change.contains("memory fix") && first.change.contains("rank"),
        "{first:?}"
    );
    assert!(first.need + first.band <= load.usable);
}

/// A model that the registry does not have and the sweep does not describe.
fn unknown(mode: vram::Mode) -> vram::Workload {
    let settings: vram::Settings =
        serde_json::from_value(serde_json::json!({"model": "somebody/new-model", "rank": 8}))
            .expect("settings");
    vram::Workload::new(mode, &settings, None).expect("a workload")
}

#[test]
fn a_probe_of_an_unknown_model_stands_for_its_training() {
    let class = vram::DeviceClass {
        name: "NVIDIA GeForce RTX 5060 Ti".into(),
        backend: vram::Backend::Cuda,
        os: "linux".into(),
        spills: false,
        simulated: false,
    };
    let mut knowledge = vram::Knowledge::seeds();
    let train = unknown(vram::Mode::Train);
    assert!(vram::estimate(&train, &class, &knowledge).is_none());
    let taken = knowledge.learn(vram::Observation {
        settings: unknown(vram::Mode::Probe).settings,
        mode: vram::Mode::Probe,
        host: "rig".into(),
        class: class.clone(),
        observed: vram::Observed::Ok,
        allocated: Some(vram::Bytes::from_mib(5000.0)),
        reserved: Some(vram::Bytes::from_mib(5200.0)),
        room: vram::Bytes::from_mib(15_872.0),
        source: "a probe".into(),
        noted: vram::Noted::default(),
    });
    assert!(taken);
    let known = vram::estimate(&train, &class, &knowledge).expect("its probe is known");
    assert_eq!(known.source, vram::Source::Learned);
    assert!(
        known.band.mib() > 300.0,
        "a probe is not the run itself: {known:?}"
    );
}
