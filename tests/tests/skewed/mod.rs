//! Sessions that were recorded between an agent and a coordinator of an earlier version: every message of each side, as it
//! was. And a few bytes that no version of ours has ever sent.
//!
//! To record a version, with its own binary: `SWEEP_BIN=OLD SWEEP_RECORD=tests/wire/NAME cargo test -p whole --test skew
//! -- --ignored`. A recording is never changed.

pub mod raw;

use std::path::{Path, PathBuf};

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{decode_varint, encode_varint};
use proto::v1::{AgentMessage, CoordinatorMessage};

/// The sweep that was recorded: the first job ends, the second is cancelled.
pub const STAGES: &str = "[train]\nrun = [\"sh\", \"-c\", \"echo begun; [ {n} = 1 ] || sleep 300; \
    echo '{{\\\"result\\\": {{\\\"score\\\": 7}}}}' >> $SWEEP_REPORT; echo ended\"]";
pub const AXES: &str = "n = [1, 2]";
pub const NAME: &str = "skew";

/// Each of these folders is a version.
pub fn versions() -> Vec<PathBuf> {
    let folder = whole::project().join("tests/wire");
    let entries = std::fs::read_dir(folder).expect("recordings");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    all.sort();
    assert!(!all.is_empty(), "nothing was recorded");
    all
}

/// All that one side said, in order.
pub fn read(version: &Path, side: &str) -> Vec<Bytes> {
    let file = version.join(side);
    let mut rest = Bytes::from(std::fs::read(file).expect("a recording"));
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let length = decode_varint(&mut rest).expect("a length");
        messages.push(rest.split_to(usize::try_from(length).expect("a length")));
    }
    messages
}

pub fn write(version: &Path, side: &str, messages: &[Bytes]) {
    let mut all = BytesMut::new();
    for message in messages {
        encode_varint(message.len() as u64, &mut all);
        all.put_slice(message);
    }
    std::fs::create_dir_all(version).expect("a folder");
    std::fs::write(version.join(side), all).expect("a recording");
}

pub fn by_agent(message: &Bytes) -> AgentMessage {
    AgentMessage::decode(message.clone()).expect("a message of an agent")
}

pub fn by_coordinator(message: &Bytes) -> CoordinatorMessage {
    CoordinatorMessage::decode(message.clone()).expect("a message of a coordinator")
}

/// The same bytes with another id of the same length in them.
pub fn renamed(message: &Bytes, from: &str, to: &str) -> Bytes {
    assert_eq!(from.len(), to.len(), "{from} and {to}");
    let mut bytes = message.to_vec();
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, part)| *part == from.as_bytes())
        .map(|(at, _)| at)
        .collect();
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes.into()
}

/// A message with two fields that this version does not know.
pub fn with_more(message: impl prost::Message) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    // 99: 1, and 98: "later".
    bytes.extend([0x98, 0x06, 1]);
    bytes.extend([0x92, 0x06, 5]);
    bytes.extend(b"later");
    bytes
}

/// The message that has this one in its field of that number.
pub fn inside(field: u32, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    encode_varint(u64::from(field << 3 | 2), &mut bytes);
    encode_varint(message.len() as u64, &mut bytes);
    bytes.put_slice(message);
    bytes.freeze()
}
