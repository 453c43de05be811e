//! What one commit writes. Records say what they are; where they are kept and how they are indexed is not the
//! caller's business, and a batch refuses nothing: [`super::pairs`] checks it.

use proto::store::v1::{
    AttemptRecord, HostRecord, MarkRecord, ObservationRecord, RehearsalRecord, RulingRecord,
    SweepRecord,
};

/// One thing to keep. A record of the same key replaces the earlier one; later ones of a batch win.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// By `number`. An update may leave `toml` empty: the text written first stays.
    Sweep(SweepRecord),
    /// By (`sweep`, `trial`, `kind`, `number`).
    Attempt(AttemptRecord),
    /// By (`sweep`, `trial`, `kind`).
    Ruling(RulingRecord),
    /// Takes back the ruling of (`sweep`, `trial`, `kind`), for a retry.
    ForgetRuling { sweep: u64, trial: u32, kind: u32 },
    /// By (`sweep`, `order`).
    Mark(MarkRecord),
    /// By `name`.
    Host(HostRecord),
    /// Its attempts stay in history.
    ForgetHost(String),
    /// By `number`.
    Observation(ObservationRecord),
    /// By `key`; its blob is kept before.
    Rehearsal(RehearsalRecord),
    /// By its key. Its blob is removed after the commit, where nothing else names it.
    ForgetRehearsal(String),
}

/// Written whole or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub records: Vec<Record>,
}

impl Batch {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, record: Record) -> &mut Self {
        self.records.push(record);
        self
    }

    /// Appends another batch: how a group commit is made.
    pub fn append(&mut self, mut other: Self) {
        self.records.append(&mut other.records);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl From<Vec<Record>> for Batch {
    fn from(records: Vec<Record>) -> Self {
        Self { records }
    }
}

macro_rules! record_from {
    ($($variant:ident($message:ty)),* $(,)?) => {$(
        impl From<$message> for Record {
            fn from(message: $message) -> Self {
                Self::$variant(message)
            }
        }
    )*};
}
record_from!(
    Sweep(SweepRecord),
    Attempt(AttemptRecord),
    Ruling(RulingRecord),
    Mark(MarkRecord),
    Host(HostRecord),
    Observation(ObservationRecord),
    Rehearsal(RehearsalRecord),
);
