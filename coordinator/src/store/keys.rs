//! The store's keys. One tree holds everything, so that one batch is one atomic write; the first byte says what a
//! key is, numbers are big-endian, and times in indexes are inverted so that a forward walk gives the newest first.
//!
//! Refuses nothing: names are checked where records come in.

use proto::store::v1::AttemptRecord;

/// How many commits there were; counts anew in a store that is written anew.
pub const COMMITS: u8 = b'#';
pub const META: u8 = b'!';
pub const SWEEP: u8 = b'S';
/// The sweep file's text, apart from the record, so that heads stay small and are never rewritten with it.
pub const TOML: u8 = b'T';
pub const ATTEMPT: u8 = b'A';
pub const RULING: u8 = b'R';
pub const MARK: u8 = b'M';
pub const HOST: u8 = b'H';
pub const OBSERVATION: u8 = b'O';
pub const REHEARSAL: u8 = b'P';
/// Attempts by host, newest first; no value.
pub const BY_HOST: u8 = b'h';
/// Attempts by time, newest first; no value.
pub const BY_TIME: u8 = b't';

/// Every kind of key but the count of commits, and the indexes, which are made from the records.
pub const RECORDS: [u8; 9] = [
    META,
    SWEEP,
    TOML,
    ATTEMPT,
    RULING,
    MARK,
    HOST,
    OBSERVATION,
    REHEARSAL,
];

/// Bytes of (sweep, trial, kind, number).
pub const ATTEMPT_LEN: usize = 20;
/// Bytes of (inverted time, attempt): the position of an attempt in history.
pub const POSITION_LEN: usize = 8 + ATTEMPT_LEN;

pub type Position = [u8; POSITION_LEN];

pub fn meta() -> Vec<u8> {
    vec![META]
}

pub fn commits() -> Vec<u8> {
    vec![COMMITS]
}

pub fn sweep(number: u64) -> Vec<u8> {
    numbered(SWEEP, number)
}

pub fn toml(number: u64) -> Vec<u8> {
    numbered(TOML, number)
}

pub fn observation(number: u64) -> Vec<u8> {
    numbered(OBSERVATION, number)
}

pub fn rehearsal(content: &str) -> Vec<u8> {
    let mut key = vec![REHEARSAL];
    key.extend(content.as_bytes());
    key
}

pub fn ruling(sweep: u64, trial: u32, kind: u32) -> Vec<u8> {
    let mut key = numbered(RULING, sweep);
    key.extend(trial.to_be_bytes());
    key.extend(kind.to_be_bytes());
    key
}

pub fn mark(sweep: u64, order: u64) -> Vec<u8> {
    let mut key = numbered(MARK, sweep);
    key.extend(order.to_be_bytes());
    key
}

pub fn host(name: &str) -> Vec<u8> {
    let mut key = vec![HOST];
    key.extend(name.as_bytes());
    key
}

pub fn attempt(record: &AttemptRecord) -> Vec<u8> {
    let mut key = vec![ATTEMPT];
    key.extend(attempt_tail(record));
    key
}

pub fn attempt_at(position: &Position) -> Vec<u8> {
    let mut key = vec![ATTEMPT];
    key.extend(&position[8..]);
    key
}

pub fn position(record: &AttemptRecord) -> Position {
    let mut position = [0; POSITION_LEN];
    position[..8].copy_from_slice(&(!record.placed_ms).to_be_bytes());
    position[8..].copy_from_slice(&attempt_tail(record));
    position
}

pub fn by_time(position: &Position) -> Vec<u8> {
    let mut key = vec![BY_TIME];
    key.extend(position);
    key
}

pub fn by_host(host: &str, position: &Position) -> Vec<u8> {
    let mut key = by_host_start(host);
    key.extend(position);
    key
}

/// What all index keys of one host begin with. Names contain no zero byte.
pub fn by_host_start(host: &str) -> Vec<u8> {
    let mut key = vec![BY_HOST];
    key.extend(host.as_bytes());
    key.push(0);
    key
}

/// The position at the end of an index key.
pub fn position_of(key: &[u8]) -> Option<Position> {
    key.get(key.len().checked_sub(POSITION_LEN)?..)?
        .try_into()
        .ok()
}

pub fn kind(position: &Position) -> u32 {
    let mut kind = [0; 4];
    kind.copy_from_slice(&position[20..24]);
    u32::from_be_bytes(kind)
}

/// The first position of those placed at or before `ms`.
pub fn newest_at(ms: u64) -> [u8; 8] {
    (!ms).to_be_bytes()
}

pub fn numbered(prefix: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + ATTEMPT_LEN);
    key.push(prefix);
    key.extend(number.to_be_bytes());
    key
}

/// The least key that is greater than every key with this prefix. Prefixes here never end in 0xff bytes only.
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn attempt_tail(record: &AttemptRecord) -> [u8; ATTEMPT_LEN] {
    let mut tail = [0; ATTEMPT_LEN];
    tail[..8].copy_from_slice(&record.sweep.to_be_bytes());
    tail[8..12].copy_from_slice(&record.trial.to_be_bytes());
    tail[12..16].copy_from_slice(&record.kind.to_be_bytes());
    tail[16..].copy_from_slice(&record.number.to_be_bytes());
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_attempts_come_first() {
        let record = |placed_ms| AttemptRecord {
            placed_ms,
            sweep: 1,
            trial: 2,
            kind: 3,
            number: 4,
            ..AttemptRecord::default()
        };
        let old = position(&record(10));
        let new = position(&record(20));
        assert!(by_host("rig", &new) < by_host("rig", &old));
        assert_eq!(kind(&old), 3);
        assert_eq!(position_of(&by_time(&old)), Some(old));
        assert_eq!(attempt_at(&old), attempt(&record(10)));
        assert!(newest_at(10)[..] <= old[..8] && newest_at(9)[..] > old[..8]);
    }

    #[test]
    fn the_end_of_a_prefix_is_past_all_its_keys() {
        assert_eq!(after(b"ab"), b"ac");
        assert_eq!(after(&[b'S', 0xff, 0xff]), b"T");
    }

    #[test]
    fn a_host_is_not_the_beginning_of_another() {
        let position = position(&AttemptRecord::default());
        assert!(!by_host("rig2", &position).starts_with(&by_host_start("rig")));
    }
}
