//! What is alive at the peak, from a stream's labels, and its timeline.

use vram::{Bytes, MOMENTS, ReplaySettings, ReplayStatus, Stream, explain, timeline_svg};

const LABELLED: &str = "\
a 1073741824 embed model.py:1
m 1
a 536870912 layers.0.mlp mlp.py:3
a 268435456 layers.0.attention attention.py:9
m 2
a 1342177280 lm_head fixes.py:45
f 3
a 1048576 layers.0 backward:MmBackward0
m 3
m 4
";

#[test]
fn the_peak_is_named_by_module_and_place() {
    let stream = Stream::read(LABELLED.as_bytes()).unwrap();
    let answer = explain(&stream, ReplaySettings::default());
    assert_eq!(answer.peak_stage, "backward");
    assert!(answer.wanted.is_none());
    assert_eq!(
        answer.replayed.allocated_mib,
        1024.0 + 512.0 + 256.0 + 1280.0
    );
    let largest = &answer.replayed.alive_at_peak[0];
    assert_eq!(
        (largest.label.as_str(), largest.mib),
        ("lm_head fixes.py:45", 1280.0)
    );
    let modules: Vec<&str> = answer
        .by_module
        .iter()
        .map(|one| one.label.as_str())
        .collect();
    assert_eq!(modules, ["lm_head", "embed", "layers.0"]);
    assert_eq!(answer.by_module[2].mib, 768.0);
    let svg = timeline_svg(&answer);
    assert!(
        svg.contains("peak allocated 3072.0 MiB in backward"),
        "{svg}"
    );
}

#[test]
fn a_limit_ends_the_timeline_where_the_memory_ends() {
    let stream = Stream::read(LABELLED.as_bytes()).unwrap();
    let limit = Some(Bytes::from_mib(2000.0));
    let answer = explain(
        &stream,
        ReplaySettings {
            limit,
            ..Default::default()
        },
    );
    assert_eq!(answer.replayed.status, ReplayStatus::Oom);
    assert_eq!(answer.replayed.oom_wanted_mib, Some(1280.0));
    let wanted = answer.wanted.as_ref().unwrap();
    assert_eq!(
        (wanted.label.as_str(), wanted.mib, wanted.stage.as_str()),
        (
            "lm_head fixes.py:45 (copied by save_on_cpu's offload)",
            1280.0,
            "backward"
        )
    );
    assert_eq!(wanted.allocated_mib, 1024.0 + 512.0 + 256.0);
    assert!(answer.timeline.iter().all(|one| one.reserved_mib <= 2000.0));
    assert!(timeline_svg(&answer).contains("limit 2000 MiB"));
}

#[test]
fn a_real_stream_is_thinned_and_keeps_its_peak() {
    let bytes = include_bytes!("../fixtures/gemma3-4b-r112-2steps.gz");
    let stream = Stream::read(bytes).unwrap();
    let answer = explain(&stream, ReplaySettings::default());
    assert!(answer.timeline.len() <= MOMENTS);
    let top = answer
        .timeline
        .iter()
        .map(|one| one.allocated_mib)
        .fold(0.0, f64::max);
    assert_eq!(top, answer.replayed.allocated_mib);
    assert!(
        answer
            .stages
            .iter()
            .any(|mark| mark.name == "backward, step 2"),
        "{:?}",
        answer.stages
    );
}
