//! Which streams stand for which: own ranks, pairs of one making, cards.

use super::*;

fn workload(rank: u64) -> Workload {
    let settings = serde_json::json!({"model": "gemma-3-4b-it", "seq_len": 512, "rank": rank});
    let settings = serde_json::from_value(settings).unwrap();
    Workload::new(crate::Mode::Train, &settings, None).unwrap()
}

fn made(origin: Origin, kernels: Kernels, by: &str, doubtful: bool) -> Made {
    let workspace = Bytes(0);
    Made {
        origin,
        card: CardKind { kernels, workspace },
        by: by.to_owned(),
        doubtful,
    }
}

fn stream(text: &str) -> Arc<Stream> {
    Arc::new(Stream::read(text.as_bytes()).unwrap())
}

const CARD: CardKind = CardKind {
    kernels: Kernels::Ampere,
    workspace: Bytes(0),
};

#[test]
fn a_doubt_makes_the_band_wider_also_of_what_is_scaled_from_it() {
    let mut streams = Streams::default();
    let mut learn = |rank, doubtful| {
        let made = made(Origin::Rehearsed, Kernels::Ampere, "", doubtful);
        streams.learn(
            &workload(rank),
            made,
            stream("a 104857600\nm 1\na 512\nm 4\n"),
        )
    };
    assert!(learn(8, false) && learn(32, true));
    let band = |rank| streams.need(&workload(rank), CARD, false).unwrap().band;
    assert_eq!((band(8), band(32), band(16)), (0.008, 0.016, 0.016));
    // A copy knows what was found before.
    assert_eq!(streams.clone().needs.lock().unwrap().len(), 3);
}

#[test]
fn other_kernels_never_stand_in() {
    let mut streams = Streams::default();
    let turing = made(Origin::Rehearsed, Kernels::Turing, "", false);
    assert!(streams.learn(&workload(8), turing, stream("a 1048576\nm 1\nm 4\n")));
    assert!(streams.find(&workload(8), CARD).is_none());
    assert_eq!(streams.origin(&workload(8), Kernels::Ampere), None);
    let card = CardKind {
        kernels: Kernels::Turing,
        ..CARD
    };
    assert!(streams.find(&workload(8), card).is_some());
}

/// While a newer kit has made only one of two ranks, the older one's pair goes on telling what lies between.
#[test]
fn only_streams_of_one_making_scale_together() {
    let mut streams = Streams::default();
    let old = made(Origin::Rehearsed, Kernels::Ampere, "kit 1", false);
    let new = made(Origin::Rehearsed, Kernels::Ampere, "kit 2", false);
    let recorded = made(Origin::Recorded, Kernels::Ampere, "", false);
    let mib = |mib: u64, more: &str| stream(&format!("a {}\nm 1\n{more}m 4\n", mib << 20));
    for (rank, size) in [(8, 108), (32, 132)] {
        assert!(streams.learn(&workload(rank), old.clone(), mib(size, "")));
    }
    assert!(streams.learn(&workload(8), new.clone(), mib(208, "a 512\n")));
    assert!(streams.learn(&workload(8), recorded.clone(), mib(308, "a 512\nf 1\n")));
    let size = |streams: &Streams, rank| {
        let need = streams.need(&workload(rank), CARD, false).unwrap();
        (need.origin, need.allocated.0 >> 20)
    };
    assert_eq!(size(&streams, 8), (Origin::Recorded, 308));
    assert_eq!(size(&streams, 16), (Origin::Rehearsed, 116));
    assert!(streams.learn(&workload(32), new.clone(), mib(232, "a 512\n")));
    assert_eq!(size(&streams, 16), (Origin::Rehearsed, 216));
    // What is let go of leaves the others.
    streams.forget(&workload(8), &recorded);
    streams.forget(&workload(8), &old);
    streams.forget(&workload(32), &old);
    assert_eq!(size(&streams, 8), (Origin::Rehearsed, 208));
    streams.forget(&workload(8), &new);
    streams.forget(&workload(32), &new);
    assert!(streams.families.is_empty());
}

/// What one measured trial had beyond its stream, the others of the program on that class of card have, too.
#[test]
fn a_measured_run_corrects_what_its_siblings_streams_say() {
    let rtx = class("RTX 3060 Ti", false);
    let mut knowledge = crate::Knowledge::seeds();
    for (rank, mib) in [(8, 1000), (32, 1600)] {
        let made = made(Origin::Rehearsed, Kernels::Ampere, "kit", false);
        let text = format!("a {}\nm 1\na 512\nm 4\n", mib << 20);
        let text = Stream::read(text.as_bytes()).unwrap();
        assert!(knowledge.learn_stream(&workload(rank), made, text));
    }
    let size = |knowledge: &crate::Knowledge, class: &crate::DeviceClass| {
        let known = crate::estimate(&workload(16), class, knowledge).unwrap();
        let sum: Bytes = known.terms.iter().map(|term| term.bytes).sum();
        assert_eq!(sum, known.allocated);
        let band = (known.band.mib() / known.reserved.mib() * 1000.0).round();
        (known.source, known.allocated.mib().round(), band)
    };
    let alone = (crate::Source::Replayed, 1200.0, 8.0);
    assert_eq!(
        size(&knowledge, &rtx),
        alone,
        "the seeds tell nothing of it"
    );
    assert!(!knowledge.learn(seen(&class("RTX 3060 Ti", true), 8, 1040.0)));
    assert!(knowledge.learn(seen(&rtx, 8, 1040.0)));
    let corrected = (crate::Source::Replayed, 1240.0, 17.0);
    assert_eq!(size(&knowledge, &rtx), corrected);
    assert_eq!(size(&knowledge, &class("RTX 3070 Ti", false)), alone);
    // A program that takes less than its stream has less said of it.
    assert!(knowledge.learn(seen(&class("RTX 3070 Ti", false), 32, 1550.0)));
    let less = (crate::Source::Replayed, 1150.0, 17.0);
    assert_eq!(size(&knowledge, &class("RTX 3070 Ti", false)), less);
}

fn class(name: &str, simulated: bool) -> crate::DeviceClass {
    crate::DeviceClass {
        name: name.to_owned(),
        backend: crate::Backend::Cuda,
        os: "linux".to_owned(),
        spills: false,
        simulated,
    }
}

fn seen(class: &crate::DeviceClass, rank: u64, mib: f64) -> crate::Observation {
    crate::Observation {
        settings: workload(rank).settings,
        mode: crate::Mode::Train,
        host: "box".to_owned(),
        class: class.clone(),
        observed: crate::Observed::Ok,
        allocated: Some(Bytes::from_mib(mib)),
        reserved: None,
        room: Bytes::from_mib(8000.0),
        source: format!("rank {rank}"),
        noted: crate::Noted::default(),
    }
}
