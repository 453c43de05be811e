//! The recorded streams of real runs, replayed and scaled, against what the card measured.

use vram::{Bytes, ReplaySettings, ReplayStatus, Stream, replay, scale};

const R96_OOM: &[u8] = include_bytes!("../fixtures/gemma3-4b-r96-limit-oom.gz");
const R104: &[u8] = include_bytes!("../fixtures/gemma3-4b-r104-limit.gz");
const R112: &[u8] = include_bytes!("../fixtures/gemma3-4b-r112-limit.gz");
const R112_TWO_STEPS: &[u8] = include_bytes!("../fixtures/gemma3-4b-r112-2steps.gz");
const R112_THREE_STEPS_OOM: &[u8] =
    include_bytes!("../fixtures/gemma3-4b-r112-3steps-limit-oom.gz");

/// 7.42 GiB, as the card was held to.
const LIMIT: f64 = 7598.08;

fn limited(limit: f64) -> ReplaySettings {
    ReplaySettings {
        limit: Some(Bytes::from_mib(limit)),
        ..Default::default()
    }
}

#[test]
fn the_recorded_streams_come_out_with_the_measured_reserved_memory() {
    // Allocated and reserved as h200.jsonl has them for the same runs.
    for (bytes, limit, allocated, reserved) in [
        (R96_OOM, Some(LIMIT), 6427.4, 7598.0),
        (R104, Some(LIMIT), 6892.3, 7334.0),
        (R112, Some(LIMIT), 6982.7, 7352.0),
        (R112_TWO_STEPS, None, 7031.9, 7530.0),
        (R112_THREE_STEPS_OOM, Some(LIMIT), 6982.7, 7524.0),
    ] {
        let stream = Stream::read(bytes).unwrap();
        let settings = limit.map_or(ReplaySettings::default(), limited);
        let answer = replay(&stream, settings);
        println!(
            "{answer:?} real {:?}",
            stream.real_reserved.map(|b| b as f64 / 1048576.0)
        );
        assert_eq!(answer.reserved_mib, reserved);
        assert!(
            (answer.allocated_mib / allocated - 1.0).abs() < 0.003,
            "{answer:?}"
        );
    }
}

#[test]
fn two_streams_scale_to_ranks_that_neither_ran() {
    let (a, b) = (Stream::read(R104).unwrap(), Stream::read(R112).unwrap());
    use ReplayStatus::{Ok, Oom};
    for (rank, limit, allocated, status) in [
        (80, Some(LIMIT), 6374.0, Oom),
        (96, Some(LIMIT), 6427.4, Oom),
        (104, Some(LIMIT), 6892.3, Ok),
        (112, Some(LIMIT), 6982.7, Ok),
        (128, Some(LIMIT), 7189.4, Ok),
        (96, None, 6652.8, Ok),
        (192, None, 8175.8, Ok),
        (256, None, 9089.6, Ok),
    ] {
        let stream = scale((&a, 104), (&b, 112), rank).unwrap();
        let answer = replay(&stream, limit.map_or(ReplaySettings::default(), limited));
        println!("rank {rank}: {answer:?}");
        assert_eq!(answer.status, status, "rank {rank}");
        assert!(
            (answer.allocated_mib / allocated - 1.0).abs() < 0.002,
            "rank {rank}: {answer:?}"
        );
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
    use vram::{Knowledge, Origin, Source};
    let mut knowledge = Knowledge::default();
    let workspace = Bytes::from_mib(32.0);
    for (rank, bytes) in [(104, R104), (112, R112)] {
        let stream = Stream::read(bytes).unwrap();
        assert!(knowledge.learn_stream(
            &of_rank(rank),
            Origin::Recorded,
            workspace,
            stream.clone()
        ));
        // What was recorded is not replaced by a rehearsal.
        assert!(!knowledge.learn_stream(&of_rank(rank), Origin::Rehearsed, workspace, stream));
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
