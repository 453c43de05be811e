//! `sweep vram replay`.

use std::path::Path;

use serde_json::{Value, json};
use vram::{Bytes, ReplaySettings, Stream};

use crate::said::*;

#[test]
fn a_replay_is_the_librarys() {
    let (a, b) = (
        shipped("fixtures/gemma3-4b-r104-limit.gz"),
        shipped("fixtures/gemma3-4b-r112-limit.gz"),
    );
    let stream = |path: &Path| Stream::read(&std::fs::read(path).unwrap()).unwrap();
    let settings = |limit: Option<f64>, expandable_segments| ReplaySettings {
        limit: limit.map(Bytes::from_mib),
        expandable_segments,
        alive_at_peak: true,
    };
    let answer = json_of(&ask(&["vram", "replay", "--from", plain(&b), "--json"]));
    has(&answer, &REPLAYED);
    has(&answer["alive_at_peak"][0], &["label", "mib", "blocks"]);
    assert_eq!(
        answer,
        json!(vram::replay(&stream(&b), settings(None, false)))
    );
    assert_eq!(answer["status"], "ok");

    let named = [
        format!("rank=104:{}", plain(&a)),
        format!("rank=112:{}", plain(&b)),
    ];
    let words = [
        "vram",
        "replay",
        "--from",
        &named[0],
        "--from",
        &named[1],
        "--for",
        "rank=128",
        "--limit-mib",
        "7000",
        "--expandable-segments",
        "--json",
    ];
    let answer = json_of(&ask(&words));
    let scaled = vram::scale((&stream(&a), 104), (&stream(&b), 112), 128).unwrap();
    assert_eq!(
        answer,
        json!(vram::replay(&scaled, settings(Some(7000.0), true)))
    );
    // Out of memory is an answer, so the exit code was 0.
    assert_eq!(answer["status"], "oom");
    let text = text_of(&ask(&words[..words.len() - 1]));
    assert!(
        text.starts_with("out of memory within 7000.0 MiB, wanting "),
        "{text}"
    );
    assert!(text.contains("ALIVE AT THE PEAK"), "{text}");

    // Plain text is read as well.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    std::fs::write(&path, "E\nm 1\na 30000000 weights\na 2000000 rest\nf 1\n").unwrap();
    let words = ["vram", "replay", "--from", plain(&path), "--json"];
    let answer = json_of(&ask(&words));
    assert_eq!(
        (answer["allocated_mib"].as_f64(), answer["events"].as_u64()),
        (Some(30.5), Some(5))
    );
    assert_eq!(answer["oom_wanted_mib"], Value::Null);
}

#[test]
fn damaged_streams_and_wrong_combinations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(shipped("fixtures/gemma3-4b-r96-limit-oom.gz")).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let damaged = file("damaged.gz", &whole[..whole.len() / 2]);
    let (text, small) = (file("text", b"a 10\nf 7\n"), file("small", b"a 10\nm 1\n"));
    let other = file("other", b"a 10\nm 2\n");
    let replay = |words: &[&str], says: &[&str]| {
        refused(&[&["vram", "replay"], words].concat(), says);
    };
    let from = |path: &Path| format!("rank=8:{}", plain(path));
    replay(
        &["--from", plain(&damaged)],
        &["damaged.gz: failed to unpack the stream"],
    );
    replay(
        &["--from", plain(&text)],
        &["line 2", "allocation 7 was never made"],
    );
    replay(&["--from", "/no/such"], &["/no/such"]);
    replay(&[], &["--from"]);
    replay(
        &["--from", plain(&small), "--for", "rank=8"],
        &["--for scales two streams"],
    );
    let two = ["--from", &from(&small), "--from", plain(&small)];
    replay(&two, &["say which with --for rank=N"]);
    replay(
        &[&two[..], &["--for", "rank=9"]].concat(),
        &["rank=N:STREAM"],
    );
    replay(&[&two[..], &["--from", "x"]].concat(), &["at most two"]);
    let same = [
        "--from",
        &from(&small),
        "--from",
        &from(&small),
        "--for",
        "rank=9",
    ];
    replay(&same, &["both are of rank 8"]);
    let another = format!("rank=16:{}", plain(&other));
    let unlike = [
        "--from",
        &from(&small),
        "--from",
        &another,
        "--for",
        "rank=9",
    ];
    replay(&unlike, &["failed to match the two streams"]);
    replay(&["--from", "rank=0:x"], &["`rank=0` is no rank"]);
    replay(&["--from", "x", "--for", "80"], &["`80` is no rank"]);
    replay(&["--from", plain(&small), "--limit-mib", "-1"], &["-1"]);
}
