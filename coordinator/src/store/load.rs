//! What a coordinator needs in memory: at its start, and of one sweep.
//!
//! Refuses to read the attempts of settled sweeps at the start: a million of them must not delay it.

use proto::store::v1::{
    AttemptRecord, HostRecord, MarkRecord, MetaRecord, ObservationRecord, RehearsalRecord,
    RulingRecord, SweepRecord,
};

use super::pairs::Pairs;
use super::{StoreError, keys};

/// The store's hot part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    pub meta: MetaRecord,
    /// 0 when there is none.
    pub newest_sweep: u64,
    /// Every sweep without its file's text, oldest first.
    pub heads: Vec<SweepRecord>,
    /// Sweeps that have not settled, with all that belongs to them, oldest first.
    pub open: Vec<SweepRecords>,
    /// By name.
    pub hosts: Vec<HostRecord>,
    /// By number.
    pub observations: Vec<ObservationRecord>,
    /// By key; their streams are blobs.
    pub rehearsals: Vec<RehearsalRecord>,
}

/// A sweep and all that belongs to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepRecords {
    /// With the file's text, if it is kept in the record.
    pub sweep: SweepRecord,
    /// By trial, kind, number.
    pub attempts: Vec<AttemptRecord>,
    /// By trial, kind.
    pub rulings: Vec<RulingRecord>,
    /// By order.
    pub marks: Vec<MarkRecord>,
}

pub fn load(kept: &impl Pairs) -> Result<Loaded, StoreError> {
    let heads: Vec<SweepRecord> = kept.collect("a sweep", &[keys::SWEEP])?;
    let open = heads
        .iter()
        .filter(|head| head.settled_ms == 0)
        .map(|head| of_head(kept, head.clone()))
        .collect::<Result<_, _>>()?;
    Ok(Loaded {
        meta: kept
            .find("the store's meta record", &keys::meta())?
            .unwrap_or_default(),
        newest_sweep: heads.last().map_or(0, |head| head.number),
        heads,
        open,
        hosts: kept.collect("a host", &[keys::HOST])?,
        observations: kept.collect("an observation", &[keys::OBSERVATION])?,
        rehearsals: kept.collect("a rehearsal", &[keys::REHEARSAL])?,
    })
}

pub fn sweep(kept: &impl Pairs, number: u64) -> Result<Option<SweepRecords>, StoreError> {
    let head = kept.find("a sweep", &keys::sweep(number))?;
    head.map(|head| of_head(kept, head)).transpose()
}

pub fn sweeps(kept: &impl Pairs, limit: usize) -> Result<Vec<SweepRecord>, StoreError> {
    let mut heads: Vec<SweepRecord> = kept.collect("a sweep", &[keys::SWEEP])?;
    heads.reverse();
    if limit > 0 {
        heads.truncate(limit);
    }
    Ok(heads)
}

fn of_head(kept: &impl Pairs, mut sweep: SweepRecord) -> Result<SweepRecords, StoreError> {
    let number = sweep.number;
    sweep.toml = kept.get(&keys::toml(number))?.unwrap_or_default();
    Ok(SweepRecords {
        sweep,
        attempts: kept.collect("an attempt", &keys::numbered(keys::ATTEMPT, number))?,
        rulings: kept.collect("a ruling", &keys::numbered(keys::RULING, number))?,
        marks: kept.collect("a mark", &keys::numbered(keys::MARK, number))?,
    })
}
