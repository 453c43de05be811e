//! Allocation streams that are damaged, cut off or made to do harm: each is a clear error or an answer that adds up,
//! never a panic, a number that has run over or memory without end. Says nothing of how well a replay predicts.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use vram::{
    Bytes, Event, MIB, ReplayAnswer, ReplaySettings, ReplayStatus, Stream, StreamError, replay,
    scale,
};

const RECORDED: &[u8] = include_bytes!("../fixtures/gemma3-4b-r96-limit-oom.gz");

fn refused(text: &str) -> String {
    match Stream::read(text.as_bytes()) {
        Ok(stream) => panic!("{text:?} was read as {stream:?}"),
        Err(error) => error.to_string(),
    }
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

/// Both kinds of segments, without a limit and with one.
fn every_way(stream: &Stream) -> Vec<(ReplaySettings, ReplayAnswer)> {
    let ways = [
        (None, false),
        (None, true),
        (Some(64 * MIB), false),
        (Some(64 * MIB), true),
        (Some(0), true),
        (Some(u64::MAX), false),
    ];
    let settings = ways.map(|(limit, expandable_segments)| ReplaySettings {
        limit: limit.map(Bytes),
        expandable_segments,
        alive_at_peak: true,
    });
    settings
        .map(|settings| (settings, replay(stream, settings)))
        .into()
}

fn adds_up(stream: &Stream) {
    for (settings, answer) in every_way(stream) {
        let context = format!("{settings:?} {answer:?}");
        assert!(answer.allocated_mib.is_finite(), "{context}");
        // Both are rounded to a tenth.
        assert!(
            answer.allocated_mib <= answer.reserved_mib + 0.1,
            "{context}"
        );
        assert!(answer.events <= stream.events.len(), "{context}");
        assert_eq!(
            answer.status == ReplayStatus::Oom,
            answer.oom_wanted_mib.is_some(),
            "{context}"
        );
        let is_whole = answer.events == stream.events.len();
        assert_eq!(answer.status == ReplayStatus::Ok, is_whole, "{context}");
        // What is alive is counted in blocks of 512; what the allocator gave out may be a little larger.
        let alive: f64 = answer.alive_at_peak.iter().map(|alive| alive.mib).sum();
        let rounding = 0.1 + 0.01 * answer.alive_at_peak.len() as f64;
        assert!(alive <= answer.allocated_mib + rounding, "{context}");
        assert_eq!(answer, replay(stream, settings), "the same each time");
    }
}

#[test]
fn what_cannot_be_true_is_named_by_its_line() {
    for (text, said) in [
        ("f 0\n", "line 1 of the stream: allocation 0 was never made"),
        (
            "a 8\nf 7\n",
            "line 2 of the stream: allocation 7 was never made",
        ),
        (
            "a 8\n\nf 0\nf 0\n",
            "line 4 of the stream: allocation 0 was freed before",
        ),
        // Beyond what an allocation can be numbered.
        (
            "a 8\nf 4294967296\n",
            "line 2 of the stream: allocation 4294967296 was never made",
        ),
        (
            "a 9223372036854775808\n",
            "line 1 of the stream: a block of 9223372036854775808 bytes",
        ),
        (
            "S 9223372036854775808\na 1\n",
            "line 1 of the stream: a block of 9223372036854775808",
        ),
        (
            "a 18446744073709551616\n",
            "line 1 of the stream: `18446744073709551616` is beyond 64 bits",
        ),
        (
            "a -1\n",
            "line 1 of the stream: expected a number, found `-1`",
        ),
        ("a +1\n", "expected a number, found `+1`"),
        ("a 1e9\n", "expected a number, found `1e9`"),
        ("a 1.5\n", "expected a number"),
        ("a 0x10\n", "expected a number"),
        ("a NaN\n", "expected a number"),
        ("a \u{661}\n", "expected a number"),
        ("a  8\n", "expected a number, found ``"),
        (
            "a 000000000000000000000000000000000001\n",
            "expected a number",
        ),
        // Without the space this would be another number.
        (
            "a1048576\n",
            "line 1 of the stream: expected a space after `a`",
        ),
        ("a\t8\n", "expected a space after `a`"),
        ("Empty\n", "expected a space after `E`"),
        ("a 8\nm 256\n", "line 2 of the stream: mark 256 is none"),
        ("a 8\nm\n", "line 2 of the stream: expected a number"),
        ("alloc 8\n", "expected a space after `a`"),
        ("{\"a\": 8}\n", "unknown event `{`"),
        ("\u{0}\u{0}\u{0}", "unknown event `\\u{0}`"),
        ("", "it holds no allocation"),
        ("\n\n\n", "it holds no allocation"),
        ("E\nm 1\n", "it holds no allocation"),
    ] {
        let error = refused(text);
        assert!(error.contains(said), "{text:?}: {error}");
    }
    // A byte that is no text, and a long line, are shown in a few characters.
    let long = format!("a {}\n", "9".repeat(10 << 20));
    assert!(refused(&long).len() < 200);
    let error = Stream::read(b"a \xff\xfe\n").unwrap_err();
    assert!(error.to_string().contains("expected a number"), "{error}");
}

#[test]
fn sizes_that_together_leave_64_bits_are_refused() {
    // Each could be true; no machine has them all, not even one after the other.
    let text = "a 281474976710656\n".repeat(5000);
    let error = refused(&text);
    assert!(
        error.contains("line 4097 of the stream: all blocks together"),
        "{error}"
    );
    let mut freed = String::new();
    for number in 0..5000 {
        freed += &format!("a 281474976710656\nf {number}\nE\n");
    }
    assert!(refused(&freed).contains("all blocks together"));
    // As many as are let through are counted without running over.
    let text = "a 281474976710656\n".repeat(4096);
    adds_up(&Stream::read(text.as_bytes()).unwrap());
    // Segments of a real recorder are summed apart from its blocks.
    let text = format!("a 1\nm 1\n{}", "S 281474976710656\n".repeat(70_000));
    let stream = Stream::read(text.as_bytes()).unwrap();
    assert_eq!(stream.real_reserved, Some(u64::MAX));
}

#[test]
fn a_block_larger_than_an_expandable_range_runs_out() {
    let stream = Stream::read(b"a 281474976710656\n").unwrap();
    let expandable = ReplaySettings {
        expandable_segments: true,
        ..Default::default()
    };
    assert_eq!(replay(&stream, expandable).status, ReplayStatus::Oom);
    assert_eq!(
        replay(&stream, ReplaySettings::default()).status,
        ReplayStatus::Ok
    );
}

#[test]
fn a_gzip_that_does_not_end_as_it_should_is_refused() {
    let whole = packed(b"a 512\nf 0\n");
    assert!(Stream::read(&whole).is_ok());
    for length in 2..whole.len() {
        let error = Stream::read(&whole[..length]).unwrap_err();
        assert!(matches!(error, StreamError::Gzip(_)), "{length}: {error}");
    }
    let mut wrong_sum = whole.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    assert!(matches!(
        Stream::read(&wrong_sum),
        Err(StreamError::Gzip(_))
    ));
    let mut more = whole.clone();
    more.extend_from_slice(b"more");
    assert!(matches!(Stream::read(&more), Err(StreamError::Gzip(_))));
    // Packed twice: what comes out is no text.
    assert!(matches!(
        Stream::read(&packed(&whole)),
        Err(StreamError::Line { line: 1, .. })
    ));
    // Two members, one after the other, are one text.
    let both = [packed(b"a 512\n"), packed(b"f 0\n")].concat();
    assert_eq!(Stream::read(&both).unwrap().events.len(), 2);
}

#[test]
fn text_without_end_is_refused_before_it_fills_the_memory() {
    // The cheapest event by far: two bytes of text, a thousandth of that packed.
    let bomb = packed(&b"E\n".repeat(17 << 20));
    assert!(bomb.len() < 200 << 10);
    let error = Stream::read(&bomb).unwrap_err();
    assert!(matches!(error, StreamError::TooLong(_)), "{error}");
    // A bomb that unfolds to nothing but line ends is in stream.rs.
    let long = vec![b'\n'; (400 << 20) + 1];
    assert!(matches!(Stream::read(&long), Err(StreamError::TooLong(_))));
}

#[test]
fn windows_line_ends_are_line_ends() {
    let here = Stream::read(b"a 512 scores\nm 1\nf 0\n").unwrap();
    let there = Stream::read(b"a 512 scores\r\nm 1\r\nf 0\r\n").unwrap();
    assert_eq!(here, there);
}

#[test]
fn a_stream_that_nobody_read_is_replayed_all_the_same() {
    // Its fields are open, so that it need not come from a file.
    let events = [
        Event::Free { alloc: 0 },
        Event::Free { alloc: u32::MAX },
        Event::Alloc {
            bytes: u64::MAX,
            label: u32::MAX,
        },
        Event::Alloc { bytes: 0, label: 7 },
        Event::Free { alloc: 0 },
        Event::Free { alloc: 0 },
        Event::EmptyCache,
        Event::Mark(255),
    ];
    for from in 0..events.len() {
        let stream = Stream {
            events: events[from..].to_vec(),
            ..Default::default()
        };
        every_way(&stream);
    }
    adds_up(&Stream::default());
    let mut churn = Stream::default();
    for alloc in 0..70_000 {
        churn.events.push(Event::Alloc {
            bytes: 1 << 48,
            label: 0,
        });
        churn.events.push(Event::Free { alloc });
        churn.events.push(Event::EmptyCache);
    }
    every_way(&churn);
}

#[test]
fn scaling_to_absurd_ranks_is_refused() {
    let read = |text: &str| Stream::read(text.as_bytes()).unwrap();
    let (small, large) = (read("a 1000\nf 0\n"), read("a 2000\nf 0\n"));
    let between = scale((&small, 10), (&large, 20), 15).unwrap();
    assert_eq!(
        between.events[0],
        Event::Alloc {
            bytes: 1500,
            label: 0
        }
    );
    // Below zero, beyond any machine, and the same rank twice.
    assert_eq!(
        scale((&small, 10), (&large, 11), 1)
            .unwrap_err()
            .to_string(),
        "match the two streams: event 0 would be of -8000 bytes at rank 1"
    );
    assert!(scale((&small, 10), (&large, 20), u64::MAX).is_err());
    assert!(scale((&small, 10), (&large, 10), 10).is_err());
    let huge = Stream {
        events: vec![Event::Alloc {
            bytes: u64::MAX,
            label: 0,
        }],
        ..Default::default()
    };
    let none = Stream {
        events: vec![Event::Alloc { bytes: 0, label: 0 }],
        ..Default::default()
    };
    assert!(scale((&none, 0), (&huge, u64::MAX), u64::MAX - 1).is_err());
    assert!(scale((&huge, u64::MAX), (&none, 0), u64::MAX / 2).is_err());
    // The rank that a stream was recorded at gives that stream.
    assert_eq!(
        scale((&small, 0), (&large, u64::MAX), 0).unwrap().events,
        small.events
    );
}

/// What a recorder could have written: frees name what is there.
fn possible() -> impl Strategy<Value = String> {
    let size = prop_oneof![
        0u64..2000,
        500_000u64..3_000_000,
        9_000_000u64..40_000_000,
        Just(1 << 20),
        Just((1 << 20) + 1),
        Just(10 << 20),
    ];
    let event = (0u8..16, size, any::<Index>());
    vec(event, 1..200).prop_map(|events| {
        let (mut text, mut made, mut alive) = (String::new(), 0, Vec::new());
        for (kind, size, which) in events {
            match kind {
                0 => text += "E\n",
                1 => text += &format!("m {}\n", size % 5),
                2..=7 if !alive.is_empty() => {
                    let freed: usize = alive.swap_remove(which.index(alive.len()));
                    text += &format!("f {freed}\n");
                }
                _ => {
                    text += &format!("a {size} part {}\n", size % 3);
                    alive.push(made);
                    made += 1;
                }
            }
        }
        text + "a 1\n"
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_bytes_nothing_panics(bytes in vec(any::<u8>(), 0..300), gzip: bool) {
        let bytes = if gzip { packed(&bytes) } else { bytes };
        if let Ok(stream) = Stream::read(&bytes) {
            adds_up(&stream);
        }
    }

    #[test]
    fn lines_that_look_right_do_not_panic(lines in vec("[afmESFx] ?-?[0-9]{0,22}( [a-z ]{0,9})?\r?", 0..40)) {
        if let Ok(stream) = Stream::read(lines.join("\n").as_bytes()) {
            adds_up(&stream);
        }
    }

    #[test]
    fn what_a_recorder_could_write_adds_up(text in possible()) {
        let stream = Stream::read(text.as_bytes()).unwrap();
        prop_assert_eq!(&stream, &Stream::read(&packed(text.as_bytes())).unwrap());
        adds_up(&stream);
        // More room is never a reason to stop where less was none. (How much is reserved may well be less with less room:
        // the cache is given back.)
        let stops = |mib: u64| {
            let limit = Some(Bytes(mib * MIB));
            replay(&stream, ReplaySettings { limit, ..Default::default() }).events
        };
        let total: u64 = stream.events.iter().map(|event| match event {
            Event::Alloc { bytes, .. } => bytes / MIB + 22,
            _ => 0,
        }).sum();
        prop_assert_eq!(stops(total), stream.events.len());
    }

    #[test]
    fn cut_off_anywhere_it_is_read_or_refused(text in possible(), at in any::<Index>()) {
        let cut = &text.as_bytes()[..at.index(text.len())];
        match Stream::read(cut) {
            Ok(stream) => adds_up(&stream),
            Err(error) => prop_assert!(!matches!(error, StreamError::Gzip(_)), "{}", error),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_damaged_recording_is_read_or_refused(at in any::<Index>(), to: u8, in_text: bool) {
        // Damage to the packed file does not get past its checksum, so half of it is done to the text.
        let mut bytes = if in_text { unpacked(RECORDED) } else { RECORDED.to_vec() };
        let at = at.index(bytes.len());
        let changed = bytes[at] != to;
        bytes[at] = to;
        match Stream::read(&bytes) {
            Ok(stream) => {
                let answer = replay(&stream, ReplaySettings::default());
                prop_assert!(answer.allocated_mib <= answer.reserved_mib);
            }
            Err(error) => {
                prop_assert!(changed);
                prop_assert!(error.to_string().len() < 300, "{}", error);
            }
        }
    }

    #[test]
    fn scaled_between_its_ranks_a_size_is_between(rank in 104u64..=112) {
        let small = Stream::read(include_bytes!("../fixtures/gemma3-4b-r104-limit.gz")).unwrap();
        let large = Stream::read(include_bytes!("../fixtures/gemma3-4b-r112-limit.gz")).unwrap();
        let scaled = scale((&small, 104), (&large, 112), rank).unwrap();
        for ((small, large), between) in small.events.iter().zip(&large.events).zip(&scaled.events) {
            if let (Event::Alloc { bytes: a, .. }, Event::Alloc { bytes: b, .. }, Event::Alloc { bytes, .. })
                = (small, large, between)
            {
                prop_assert!(a.min(b) <= bytes && bytes <= a.max(b));
            }
        }
    }
}
