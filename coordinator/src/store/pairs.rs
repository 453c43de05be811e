//! Keys and values, the little that an engine must offer to be a store, and the one place where a batch becomes
//! writes: which key, which index entry, and what is refused before anything is written.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message;
use proto::store::v1::{AttemptRecord, SweepRecord};

use super::{Batch, INLINE_MAX, Record, StoreError, keys};

/// Larger records are refused: the embedded engine loses disk space with each large value that is replaced.
pub const RECORD_MAX: usize = 256 * 1024;

pub type Pair = (Vec<u8>, Vec<u8>);
pub type PairIter<'a> = Box<dyn Iterator<Item = Result<Pair, StoreError>> + 'a>;

pub trait Pairs {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keys from `from` on, up to but without `to`, in order.
    fn range(&self, from: &[u8], to: &[u8]) -> PairIter<'_>;

    /// For messages.
    fn place(&self) -> &Path;

    fn with_prefix(&self, prefix: &[u8]) -> PairIter<'_> {
        self.range(prefix, &keys::after(prefix))
    }

    fn decode<M: Message + Default>(&self, what: &str, value: &[u8]) -> Result<M, StoreError> {
        M::decode(value)
            .map_err(|error| StoreError::corrupt(self.place(), format!("{what}: {error}")))
    }

    fn find<M: Message + Default>(&self, what: &str, key: &[u8]) -> Result<Option<M>, StoreError> {
        self.get(key)?
            .map(|value| self.decode(what, &value))
            .transpose()
    }

    fn collect<M: Message + Default>(
        &self,
        what: &str,
        prefix: &[u8],
    ) -> Result<Vec<M>, StoreError> {
        self.with_prefix(prefix)
            .map(|pair| self.decode(what, &pair?.1))
            .collect()
    }
}

/// `None` removes the key.
pub type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What a batch writes, given what is kept already.
pub fn writes(batch: &Batch, kept: &impl Pairs) -> Result<Writes, StoreError> {
    let mut writes = Writes::new();
    for record in &batch.records {
        add(&mut writes, record, kept)?;
    }
    Ok(writes)
}

fn add(writes: &mut Writes, record: &Record, kept: &impl Pairs) -> Result<(), StoreError> {
    match record {
        Record::Sweep(sweep) => return add_sweep(writes, sweep),
        Record::Attempt(attempt) => return add_attempt(writes, attempt, kept),
        Record::Ruling(ruling) => {
            let key = keys::ruling(ruling.sweep, ruling.trial, ruling.kind);
            writes.insert(key, Some(encode("a ruling", ruling)?));
        }
        Record::ForgetRuling { sweep, trial, kind } => {
            writes.insert(keys::ruling(*sweep, *trial, *kind), None);
        }
        Record::Mark(mark) => {
            writes.insert(
                keys::mark(mark.sweep, mark.order),
                Some(encode("a mark", mark)?),
            );
        }
        Record::Host(host) => {
            check_host(&host.name)?;
            writes.insert(keys::host(&host.name), Some(encode("a host", host)?));
        }
        Record::ForgetHost(name) => {
            writes.insert(keys::host(name), None);
        }
        Record::Observation(observation) => {
            let value = encode("an observation", observation)?;
            writes.insert(keys::observation(observation.number), Some(value));
        }
        Record::Rehearsal(rehearsal) => {
            let plain = |c: char| c.is_ascii_alphanumeric();
            if rehearsal.key.is_empty() || !rehearsal.key.chars().all(plain) {
                return Err(StoreError::refused("a rehearsal", "its key is none"));
            }
            let value = encode("a rehearsal", rehearsal)?;
            writes.insert(keys::rehearsal(&rehearsal.key), Some(value));
        }
        Record::ForgetRehearsal(key) => {
            writes.insert(keys::rehearsal(key), None);
        }
    }
    Ok(())
}

fn add_sweep(writes: &mut Writes, sweep: &SweepRecord) -> Result<(), StoreError> {
    if sweep.number == 0 {
        return Err(StoreError::refused(
            format!("sweep {}", sweep.id),
            "its number is 0",
        ));
    }
    if sweep.toml.len() > INLINE_MAX {
        let why = format!(
            "its file has {} bytes; place_file comes first",
            sweep.toml.len()
        );
        return Err(StoreError::refused(format!("sweep {}", sweep.id), why));
    }
    let mut head = sweep.clone();
    let toml = std::mem::take(&mut head.toml);
    writes.insert(keys::sweep(sweep.number), Some(encode("a sweep", &head)?));
    if !toml.is_empty() {
        writes.insert(keys::toml(sweep.number), Some(toml));
    }
    Ok(())
}

fn add_attempt(
    writes: &mut Writes,
    attempt: &AttemptRecord,
    kept: &impl Pairs,
) -> Result<(), StoreError> {
    check_host(&attempt.host)?;
    if [attempt.trial, attempt.kind, attempt.number].contains(&0) || attempt.sweep == 0 {
        let what = format!("an attempt of {} on {}", attempt.sweep_id, attempt.host);
        return Err(StoreError::refused(
            what,
            "its sweep, trial, kind or number is 0",
        ));
    }
    let key = keys::attempt(attempt);
    let old = match writes.get(&key) {
        Some(value) => value.clone(),
        None => kept.get(&key)?,
    };
    let old: Option<AttemptRecord> = old
        .map(|value| kept.decode("an attempt", &value))
        .transpose()?;
    let place = |record: &AttemptRecord| (record.placed_ms, record.host.clone());
    if old.as_ref().map(place) != Some(place(attempt)) {
        // It never moves once placed; taking the old entries out keeps index and records in step even so.
        if let Some(old) = old {
            let position = keys::position(&old);
            writes.insert(keys::by_time(&position), None);
            writes.insert(keys::by_host(&old.host, &position), None);
        }
        let position = keys::position(attempt);
        writes.insert(keys::by_time(&position), Some(Vec::new()));
        writes.insert(keys::by_host(&attempt.host, &position), Some(Vec::new()));
    }
    writes.insert(key, Some(encode("an attempt", attempt)?));
    Ok(())
}

fn check_host(name: &str) -> Result<(), StoreError> {
    if name.is_empty() || name.len() > 255 || name.contains('\0') {
        let why = "a host's name has 1 to 255 bytes, none of them zero";
        return Err(StoreError::refused(
            format!("host `{}`", name.escape_debug()),
            why,
        ));
    }
    Ok(())
}

fn encode(what: &str, message: &impl Message) -> Result<Vec<u8>, StoreError> {
    let value = message.encode_to_vec();
    if value.len() > RECORD_MAX {
        let why = format!(
            "it has {} bytes, and records have at most {RECORD_MAX}",
            value.len()
        );
        return Err(StoreError::refused(what, why));
    }
    Ok(value)
}
