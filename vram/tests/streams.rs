//! The recorded streams of real runs, replayed and scaled, against what the card measured.

#[allow(dead_code, reason = "the document shows the rest")]
#[path = "../examples/memory_model_document/figures/mod.rs"]
mod figures;

use figures::streams::{LIMIT, R104, R112, R112_TWO_STEPS, recorded, scaled};
use vram::{Bytes, Stream, scale};

#[test]
fn the_recorded_streams_come_out_with_the_measured_reserved_memory() {
    for run in recorded().unwrap() {
        println!("{}: {:?}", run.what, run.answer);
        assert_eq!(Some(run.answer.reserved_mib), run.reserved_mib);
        assert!(run.allocated_off_pct().abs() < 0.3, "{}", run.what);
    }
}

#[test]
fn two_streams_scale_to_ranks_that_neither_ran() {
    for run in scaled().unwrap() {
        println!("{}: {:?}", run.what, run.answer);
        assert_eq!(Some(run.answer.status), run.status, "{}", run.what);
        assert!(run.allocated_off_pct().abs() < 0.2, "{}", run.what);
    }
}

#[test]
fn streams_of_two_recipes_do_not_scale() {
    let (a, b) = (
        Stream::read(R112).unwrap(),
        Stream::read(R112_TWO_STEPS).unwrap(),
    );
    assert!(scale((&a, 104), (&b, 112), 96).is_err());
    assert!(scale((&a, 112), (&a, 112), 96).is_err());
}

/// The recipe of the recorded streams.
fn of_rank(rank: u64) -> vram::Workload {
    let settings = serde_json::json!({
        "model": "google/gemma-3-4b-it", "quant": "nf4", "rank": rank, "seq_len": 7177, "response_len": 237,
        "memory_fixes": ["chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep"],
    });
    let settings = serde_json::from_value(settings).unwrap();
    vram::Workload::new(vram::Mode::Probe, &settings, None).unwrap()
}

fn card(name: &str) -> vram::DeviceClass {
    vram::DeviceClass {
        name: name.to_owned(),
        backend: vram::Backend::Cuda,
        os: "linux".to_owned(),
        spills: false,
        simulated: false,
    }
}

#[test]
fn known_streams_decide_for_ranks_and_cards_that_made_none() {
    use vram::{CardKind, Kernels, Knowledge, Made, Origin, Source};
    let mut knowledge = Knowledge::default();
    let made = |origin| Made {
        origin,
        card: CardKind::of(&card("NVIDIA H200")),
        by: String::new(),
        doubtful: false,
    };
    for (rank, bytes) in [(104, R104), (112, R112)] {
        let stream = Stream::read(bytes).unwrap();
        let recipe = of_rank(rank);
        assert!(knowledge.learn_stream(&recipe, made(Origin::Recorded), stream.clone()));
        // What was recorded goes before a rehearsal.
        assert!(knowledge.learn_stream(&recipe, made(Origin::Rehearsed), stream));
        let origin = knowledge.stream_origin(&recipe, Kernels::Ampere);
        assert_eq!(origin, Some(Origin::Recorded));
    }
    let on = |rank, name| vram::estimate(&of_rank(rank), &card(name), &knowledge).unwrap();
    for (rank, allocated) in [(112, 6982.7), (128, 7189.4), (192, 8175.8), (256, 9089.6)] {
        let here = on(rank, "NVIDIA H200");
        assert_eq!(here.source, Source::Replayed);
        assert!(
            (here.allocated.mib() / allocated - 1.0).abs() < 0.003,
            "{rank}: {}",
            here.allocated
        );
        assert!(here.reserved >= here.allocated);
        assert!(here.band.mib() < 0.03 * here.reserved.mib());
        // Three workspaces of 32 MiB are of 8.1 MiB there.
        let there = on(rank, "NVIDIA GeForce RTX 3070 Ti");
        let less = here.allocated.mib() - there.allocated.mib();
        assert!((40.0..75.0).contains(&less), "{rank}: {less}");
    }
    // Under 7,598.08 MiB ranks 104, 112 and 128 ran, 96 did not: each verdict is right or uncertain.
    let load = vram::DeviceLoad {
        usable: Bytes::from_mib(LIMIT) + on(96, "NVIDIA H200").context,
        held: Bytes::ZERO,
    };
    for (rank, fits) in [
        (96, false),
        (104, true),
        (112, true),
        (128, true),
        (192, false),
    ] {
        let kind = vram::verdict(Some(on(rank, "NVIDIA H200")), &card("NVIDIA H200"), &load).kind;
        let wrong = if fits {
            vram::VerdictKind::TooLarge
        } else {
            vram::VerdictKind::Fits
        };
        assert_ne!(kind, wrong, "rank {rank}");
        println!("rank {rank}: {kind:?}");
    }
}

/// Streams that `probe.py` recorded on an H200, of two optimizer steps; docs/measured/h200.md has the run.
const TRAINER: [(u64, &[u8]); 2] = [
    (16, include_bytes!("../fixtures/gemma3-4b-trainer-r16.gz")),
    (192, include_bytes!("../fixtures/gemma3-4b-trainer-r192.gz")),
];

#[test]
fn what_two_probes_recorded_tells_the_ranks_between_and_goes_before_what_others_measured() {
    use vram::{CardKind, Knowledge, Made, Origin, Source};
    let training = |rank| {
        let mut settings = of_rank(rank).settings;
        settings.insert("optimizer".into(), "adamw_8bit".into());
        settings.insert("rslora".into(), true.into());
        settings.insert("alpha".into(), 32.into());
        vram::Workload::new(vram::Mode::Train, &settings, None).unwrap()
    };
    let here = card("NVIDIA H200");
    // The shipped observations hold a run of rank 112 by another program, which took 400 MiB less.
    let mut knowledge = Knowledge::seeds();
    let shipped = vram::estimate(&training(112), &here, &knowledge).unwrap();
    assert_eq!(shipped.allocated, Bytes::from_mib(6658.0));
    assert!(
        shipped.need() + shipped.band >= Bytes::from_mib(7560.0),
        "the band of another program's run reaches what this one takes: {shipped:?}"
    );
    for (rank, bytes) in TRAINER {
        let made = Made {
            origin: Origin::Recorded,
            card: CardKind::of(&here),
            by: String::new(),
            doubtful: false,
        };
        let stream = Stream::read(bytes).unwrap();
        assert!(knowledge.learn_stream(&training(rank), made, stream));
    }
    for (rank, measured) in [(96, 6666.0), (112, 7058.5), (128, 7326.1)] {
        let said = vram::estimate(&training(rank), &here, &knowledge).unwrap();
        assert_eq!(said.source, Source::Replayed, "rank {rank}");
        let off = (said.allocated.mib() / measured - 1.0).abs();
        assert!(off < 0.005, "rank {rank}: {} of {measured}", said.allocated);
    }
}
