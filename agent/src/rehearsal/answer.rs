//! What a rehearsal came to: from how its process ended, what it said and what it wrote to the message for the
//! coordinator. Pure. Refuses a stream that cannot be read to its end: half a stream would be a wrong peak.

use std::collections::BTreeMap;

use proto::said::NO_PACKAGE;
use proto::v1::{CanRehearse, Rehearse, Rehearsed};
use serde::Deserialize;
use serde_json::Value;
use vram::{Bytes, Kernels, Stream};

use super::child::{Ended, Ran};

/// A stream of 161,000 events is 1.4 MB; a message to the coordinator has at most 16 MiB.
pub const STREAM_MAX: u64 = 8 << 20;
/// Of what a program says, people are told so much.
const TOLD: usize = 400;
/// The kit's own exit codes (sysexits).
const BAD_RECIPE: i32 = 64;
const MISSING_PACKAGE: i32 = 69;
const OUT_OF_HOST_MEMORY: i32 = 71;
/// What Python says where a file may not grow beyond its limit.
const FILE_TOO_LARGE: &str = "[Errno 27]";

/// The one line that the kit prints.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    versions: BTreeMap<String, Option<String>>,
    doubts: Vec<String>,
    kit: String,
    /// What it was rehearsed for.
    device: Option<String>,
    /// By its system's own count, to its last moment.
    host_peak_mib: Option<f64>,
    message: String,
    package: String,
}

pub fn failed(key: &str, error: &str, message: impl Into<String>) -> Rehearsed {
    Rehearsed {
        key: key.to_owned(),
        error: error.to_owned(),
        message: message.into(),
        ..Rehearsed::default()
    }
}

/// Whose kernels are asked for.
pub fn device(ask: &Rehearse) -> &str {
    match ask.device.as_str() {
        "" => Kernels::default().as_str(),
        device => device,
    }
}

/// `stream` is the file's content; absent when there is none.
pub fn of(ask: &Rehearse, ran: &Ran, stream: Option<Vec<u8>>) -> Rehearsed {
    let (key, device) = (ask.key.as_str(), device(ask));
    let mut answer = match trouble(ran) {
        Some((error, message)) => failed(key, error, message),
        None => match (said(&ran.said), stream) {
            (Some(said), _) if said.device.as_deref().is_some_and(|own| own != device) => {
                let own = said.device.unwrap_or_default();
                let text = format!("it was asked for {device}, and rehearsed for {own}");
                failed(key, "garbage", text)
            }
            (Some(said), Some(stream)) => done(key, said, stream),
            (None, _) => failed(
                key,
                "garbage",
                format!(
                    "it ended well, but said nothing that can be read: {}",
                    end_of(&ran.said)
                ),
            ),
            (_, None) => failed(key, "garbage", "it ended well, but wrote no stream"),
        },
    };
    answer.seconds = ran.seconds;
    let said = said(&ran.said).and_then(|said| said.host_peak_mib);
    let said = said.filter(|mib| (0.0..1e9).contains(mib));
    answer.peak_bytes = ran.peak.max(said.map_or(Bytes::ZERO, Bytes::from_mib)).0;
    device.clone_into(&mut answer.device);
    answer
}

/// What `rehearse.py --check` found.
pub fn check(ran: &Ran) -> CanRehearse {
    let cannot = |why_not: String| CanRehearse {
        why_not,
        ..CanRehearse::default()
    };
    if let Some((_, message)) = trouble(ran) {
        return cannot(message);
    }
    let Some(said) = said(&ran.said) else {
        return cannot(format!("rehearse.py --check said `{}`", end_of(&ran.said)));
    };
    let versions = said.versions.iter();
    let found =
        versions.filter_map(|(name, version)| Some(format!("{name} {}", version.as_ref()?)));
    let kit = (!said.kit.is_empty()).then(|| format!("kit {}", said.kit));
    let stack: Vec<String> = kit.into_iter().chain(found).collect();
    match stack.as_slice() {
        [] => cannot("rehearse.py --check named no versions".to_owned()),
        named => CanRehearse {
            stack: named.join(", "),
            ..CanRehearse::default()
        },
    }
}

fn done(key: &str, said: Said, stream: Vec<u8>) -> Rehearsed {
    let size = stream.len() as u64;
    if size > STREAM_MAX {
        let most = STREAM_MAX >> 20;
        return failed(
            key,
            "too_large",
            format!("its stream has {size} bytes, more than {most} MiB"),
        );
    }
    if let Err(error) = Stream::read(&stream) {
        return failed(key, "garbage", format!("its stream is no good: {error}"));
    }
    let versions = said.versions.into_iter();
    Rehearsed {
        key: key.to_owned(),
        versions: versions
            .filter_map(|(name, version)| Some((name, version?)))
            .collect(),
        stream,
        doubts: said.doubts,
        ..Rehearsed::default()
    }
}

/// The word for what went wrong, and the sentence.
fn trouble(ran: &Ran) -> Option<(&'static str, String)> {
    let exit = match ran.ended {
        Ended::OutOfTime => {
            let text = format!("it was ended after {:.0} s, its time limit", ran.seconds);
            return Some(("timed_out", text));
        }
        Ended::OutOfMemory => {
            let text = format!(
                "out of host memory: it was ended with {:.0} MiB, and `rehearsal_memory` of this host's file allows {:.0} MiB",
                ran.peak.mib(),
                ran.allowed.mib()
            );
            return Some(("out_of_memory", text));
        }
        Ended::Stopped => return Some(("killed", "it was stopped".to_owned())),
        Ended::Itself(exit) => exit,
    };
    if exit.code == Some(0) {
        return None;
    }
    let said = said(&ran.said).unwrap_or_default();
    let told = match said.message.as_str() {
        "" => end_of(&ran.complained),
        message => message.chars().take(TOLD).collect(),
    };
    Some(match (exit.code, exit.signal) {
        (Some(BAD_RECIPE), _) => ("bad_recipe", told),
        (Some(MISSING_PACKAGE), _) if !said.package.is_empty() => (
            "missing_package",
            format!("{NO_PACKAGE}{}` is missing: {told}", said.package),
        ),
        (Some(MISSING_PACKAGE), _) => ("missing_package", told),
        (Some(OUT_OF_HOST_MEMORY), _) => ("out_of_memory", format!("out of host memory: {told}")),
        (Some(_), _) if ran.complained.contains("MemoryError") => {
            ("out_of_memory", format!("out of host memory: {told}"))
        }
        (Some(_), _) if ran.complained.contains(FILE_TOO_LARGE) => ("too_large", told),
        (Some(code), _) => ("failed", format!("exit code {code}: {told}")),
        (None, Some(9)) if ran.oom_kill => {
            let text = format!(
                "out of host memory: the system ended it for want of memory, with {:.0} MiB",
                ran.peak.mib()
            );
            ("out_of_memory", text)
        }
        (None, signal) => {
            let signal = signal.unwrap_or(0);
            (
                "killed",
                format!(
                    "it was killed by signal {signal}{}",
                    if told.is_empty() {
                        String::new()
                    } else {
                        format!(": {told}")
                    }
                ),
            )
        }
    })
}

/// The last line that is a JSON object: libraries print what they like before it.
fn said(out: &str) -> Option<Said> {
    let line = out.lines().rev().find(|line| !line.trim().is_empty())?;
    let value: Value = serde_json::from_str(line).ok()?;
    value
        .is_object()
        .then(|| serde_json::from_value(value).ok())?
}

fn end_of(text: &str) -> String {
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(TOLD);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Exit;

    fn ran(ended: Ended, said: &str, complained: &str) -> Ran {
        Ran {
            ended,
            said: said.to_owned(),
            complained: complained.to_owned(),
            seconds: 1.5,
            peak: Bytes(5 << 30),
            allowed: Bytes(4 << 30),
            oom_kill: false,
        }
    }

    fn ask(device: &str) -> Rehearse {
        Rehearse {
            key: "k".into(),
            device: device.into(),
            ..Rehearse::default()
        }
    }

    fn exit(code: i32) -> Ended {
        Ended::Itself(Exit {
            code: Some(code),
            signal: None,
        })
    }

    const GOOD: &str = "a warning\n{\"versions\": {\"torch\": \"2.15\", \"bitsandbytes\": null}, \"doubts\": [\"d\"]}\n";

    #[test]
    fn a_whole_stream_is_passed_on_with_its_versions() {
        let answer = of(
            &ask(""),
            &ran(exit(0), GOOD, ""),
            Some(b"a 512\nm 1\n".to_vec()),
        );
        assert_eq!((answer.error.as_str(), answer.seconds), ("", 1.5));
        assert_eq!(
            (answer.device.as_str(), answer.peak_bytes),
            ("ampere", 5 << 30)
        );
        assert_eq!(
            answer.versions,
            BTreeMap::from([("torch".to_owned(), "2.15".to_owned())])
        );
        assert_eq!(answer.doubts, ["d"]);
    }

    #[test]
    fn whatever_else_comes_has_its_word() {
        let stream = || Some(b"a 512\nm 1\n".to_vec());
        let killed = Ended::Itself(Exit {
            code: None,
            signal: Some(9),
        });
        let cases = [
            (ran(exit(0), "Segmentation", ""), stream(), "garbage"),
            (ran(exit(0), "[1]", ""), stream(), "garbage"),
            (ran(exit(0), GOOD, ""), None, "garbage"),
            (
                ran(exit(0), GOOD, ""),
                Some(vec![0x1f, 0x8b, 8, 0]),
                "garbage",
            ),
            (
                ran(exit(0), GOOD, ""),
                Some(vec![b'a'; 9 << 20]),
                "too_large",
            ),
            (
                ran(
                    exit(64),
                    "{\"error\": \"bad_recipe\", \"message\": \"rank: no\"}",
                    "",
                ),
                None,
                "bad_recipe",
            ),
            (
                ran(exit(69), "{\"package\": \"peft\"}", ""),
                None,
                "missing_package",
            ),
            (
                ran(exit(1), "", "Traceback\nMemoryError"),
                None,
                "out_of_memory",
            ),
            (
                ran(exit(71), "{\"error\": \"out_of_host_memory\"}", ""),
                None,
                "out_of_memory",
            ),
            (ran(exit(1), "", "Traceback"), None, "failed"),
            (ran(killed, "", ""), None, "killed"),
            (
                Ran {
                    oom_kill: true,
                    ..ran(killed, "", "")
                },
                None,
                "out_of_memory",
            ),
            (
                ran(exit(0), "{\"device\": \"ampere\"}", ""),
                stream(),
                "garbage",
            ),
            (ran(Ended::OutOfTime, GOOD, ""), stream(), "timed_out"),
            (ran(Ended::OutOfMemory, GOOD, ""), stream(), "out_of_memory"),
            (ran(Ended::Stopped, GOOD, ""), stream(), "killed"),
        ];
        for (ran, stream, word) in cases {
            let answer = of(&ask("turing"), &ran, stream);
            assert_eq!(answer.error, word, "{ran:?}: {}", answer.message);
            assert!(answer.stream.is_empty() && !answer.message.is_empty());
        }
    }

    #[test]
    fn the_stack_is_named_by_kit_and_versions() {
        let said = "{\"versions\": {\"torch\": \"2.15\", \"peft\": \"0.21\", \"x\": null}, \"kit\": \"ab12\"}";
        assert_eq!(
            check(&ran(exit(0), said, "")).stack,
            "kit ab12, peft 0.21, torch 2.15"
        );
        let missing = check(&ran(
            exit(69),
            "{\"package\": \"torch\", \"message\": \"No module\"}",
            "",
        ));
        assert_eq!(missing.stack, "");
        assert_eq!(
            missing.why_not,
            "the Python package `torch` is missing: No module"
        );
        assert!(check(&ran(exit(0), "hello", "")).stack.is_empty());
    }
}
