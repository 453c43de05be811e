//! What the advice says of recipes that do not fit 7,598 MiB of reserved memory, against what the card showed.

use serde_json::{Value, json};
use vram::{
    Advice, Backend, Bytes, DeviceClass, DeviceLoad, Knowledge, Mode, ReplayStatus, Settings,
    VerdictKind, Workload, advise,
};

fn class() -> DeviceClass {
    DeviceClass {
        name: "NVIDIA H200".to_owned(),
        backend: Backend::Cuda,
        os: "linux".to_owned(),
        spills: false,
        simulated: false,
    }
}

fn asked(changes: Value) -> Advice {
    let mut settings: Settings = serde_json::from_value(json!({
        "model": "google/gemma-3-4b-it", "quant": "nf4", "rank": 112, "dropout": 0.1, "seq_len": 7177,
        "response_len": 237, "optimizer": "adamw_8bit",
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    }))
    .unwrap();
    settings.extend(serde_json::from_value::<Settings>(changes).unwrap());
    let workload = Workload::new(Mode::Train, &settings, None).unwrap();
    let load = DeviceLoad {
        usable: Bytes::from_mib(7598.08 + 233.5),
        held: Bytes::ZERO,
    };
    advise(&workload, &class(), &load, &Knowledge::default())
}

#[test]
fn a_recipe_that_crashed_three_times_is_helped_without_changing_what_it_computes() {
    let advice = asked(json!({}));
    for tried in &advice.tried {
        println!("{tried:?}");
    }
    assert_ne!(advice.verdict, VerdictKind::Fits);
    let first = &advice.suggestions[0];
    assert!(first.keeps_arithmetic, "{first:?}");
    assert_eq!(
        Value::from_iter(first.settings.clone()),
        paged_state_alone()
    );
    // Every suggestion was replayed and let through.
    for one in &advice.suggestions {
        let tried = advice
            .tried
            .iter()
            .find(|tried| tried.settings == one.settings)
            .unwrap();
        assert_eq!(tried.status, Some(ReplayStatus::Ok), "{one:?}");
        assert_eq!(tried.verdict, VerdictKind::Fits);
        assert!(one.rests_on.is_shown() && one.rests_on == tried.rests_on);
        assert_eq!(one.rests_on.stream, Some(vram::Origin::Shapes));
        assert!(one.rests_on.predicted_allocated_mib < one.rests_on.predicted_reserved_mib);
    }
    // Those that keep the arithmetic come first.
    let kept: Vec<bool> = advice
        .suggestions
        .iter()
        .map(|one| one.keeps_arithmetic)
        .collect();
    assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
}

#[test]
fn rank_144_is_helped_too() {
    let advice = asked(json!({"rank": 144, "dropout": 0.0}));
    for tried in &advice.tried {
        println!("{tried:?}");
    }
    assert_ne!(advice.verdict, VerdictKind::Fits);
    let first = &advice.suggestions[0];
    assert!(first.keeps_arithmetic, "{first:?}");
    assert_eq!(
        Value::from_iter(first.settings.clone()),
        paged_state_alone()
    );
}

/// What ran in 7,598 MiB on the card, with the losses of the same without a limit (docs/rehearsal.md, "The advice, run").
fn paged_state_alone() -> Value {
    json!({"optimizer": "paged_adamw_8bit"})
}

#[test]
fn nothing_is_suggested_for_what_no_card_of_the_size_holds() {
    let advice = asked(
        json!({"model": "meta-llama/Llama-3.1-8B", "quant": "bf16", "targets": [], "seq_len": 7177}),
    );
    for one in &advice.suggestions {
        assert!(one.settings.contains_key("quant"), "{one:?}");
    }
}
