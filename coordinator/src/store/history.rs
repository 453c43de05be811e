//! Attempts, newest first, by page. Host, sweep, kind and time come from keys alone; an outcome or
//! an observation needs the record.
//!
//! Refuses to hang: after a bounded amount of looking a page is handed back as it is, with a token to go on from,
//! so a page may be short, or empty, and not be the last.

use std::collections::BTreeMap;

use proto::store::v1::AttemptRecord;

use super::pairs::Pairs;
use super::{StoreError, keys};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 10_000;
/// Of looking: an index entry costs 1, a record `RECORD_COST`. About a quarter of a second on a slow disk.
const BUDGET: usize = 200_000;
const RECORD_COST: usize = 20;

/// Absent filters let everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    pub host: Option<String>,
    /// `SweepRecord.number`.
    pub sweep: Option<u64>,
    /// As `jobs::Kind::number` has it.
    pub kind: Option<u32>,
    pub outcome: Option<String>,
    /// Only real attempts whose program gave an observation.
    pub observed: bool,
    /// Placed at or after.
    pub since_ms: Option<u64>,
    /// Placed before.
    pub until_ms: Option<u64>,
    /// 0 is 100.
    pub limit: usize,
    /// `HistoryPage.next` of the page before.
    pub page: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryPage {
    /// Newest first by `placed_ms`.
    pub attempts: Vec<AttemptRecord>,
    /// Where to go on; absent at the end.
    pub next: Option<String>,
}

pub fn history(kept: &impl Pairs, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
    let search = Search::new(query)?;
    match query.sweep {
        Some(sweep) => search.of_sweep(kept, sweep),
        None => search.by_index(kept),
    }
}

struct Search<'a> {
    query: &'a HistoryQuery,
    limit: usize,
    /// The last position of the page before.
    after: Option<keys::Position>,
}

impl<'a> Search<'a> {
    fn new(query: &'a HistoryQuery) -> Result<Self, StoreError> {
        let limit = if query.limit == 0 {
            DEFAULT_LIMIT
        } else {
            query.limit
        };
        Ok(Self {
            query,
            limit: limit.min(MAX_LIMIT),
            after: query.page.as_deref().map(parse_token).transpose()?,
        })
    }

    fn by_index(&self, kept: &impl Pairs) -> Result<HistoryPage, StoreError> {
        let prefix = match &self.query.host {
            Some(host) => keys::by_host_start(host),
            None => vec![keys::BY_TIME],
        };
        let (from, to) = self.bounds(&prefix);
        let mut page = HistoryPage::default();
        let mut looked = 0;
        for pair in kept.range(&from, &to) {
            let position = keys::position_of(&pair?.0).ok_or_else(|| {
                StoreError::corrupt(kept.place(), "an index entry of the wrong length")
            })?;
            looked += 1;
            if self
                .query
                .kind
                .is_none_or(|kind| keys::kind(&position) == kind)
            {
                looked += RECORD_COST;
                // A reader beside the writer may see the index entry first: the record is not there yet.
                let record: Option<AttemptRecord> =
                    kept.find("an attempt", &keys::attempt_at(&position))?;
                page.attempts
                    .extend(record.filter(|record| self.record_fits(record)));
            }
            if page.attempts.len() == self.limit || looked >= BUDGET {
                page.next = Some(token(&position));
                break;
            }
        }
        Ok(page)
    }

    /// From the sweep's own attempts, whose order is another: all are read, the newest kept.
    fn of_sweep(&self, kept: &impl Pairs, sweep: u64) -> Result<HistoryPage, StoreError> {
        let mut newest: BTreeMap<keys::Position, AttemptRecord> = BTreeMap::new();
        let mut more = false;
        for pair in kept.with_prefix(&keys::numbered(keys::ATTEMPT, sweep)) {
            let record: AttemptRecord = kept.decode("an attempt", &pair?.1)?;
            let position = keys::position(&record);
            if self.after.is_some_and(|after| position <= after) || !self.lets_through(&record) {
                continue;
            }
            newest.insert(position, record);
            if newest.len() > self.limit {
                newest.pop_last();
                more = true;
            }
        }
        let next = newest.last_key_value().map(|(position, _)| token(position));
        Ok(HistoryPage {
            next: next.filter(|_| more),
            attempts: newest.into_values().collect(),
        })
    }

    fn lets_through(&self, record: &AttemptRecord) -> bool {
        let query = self.query;
        query.host.as_ref().is_none_or(|host| *host == record.host)
            && query.kind.is_none_or(|kind| kind == record.kind)
            && query.since_ms.is_none_or(|since| record.placed_ms >= since)
            && query.until_ms.is_none_or(|until| record.placed_ms < until)
            && self.record_fits(record)
    }

    /// What no key says.
    fn record_fits(&self, record: &AttemptRecord) -> bool {
        let outcome = self.query.outcome.as_ref();
        outcome.is_none_or(|outcome| *outcome == record.outcome)
            && (!self.query.observed || (!record.observation.is_empty() && !record.simulated))
    }

    fn bounds(&self, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let at = |tail: &[u8]| [prefix, tail].concat();
        let from = match self.query.until_ms {
            Some(0) => keys::after(prefix),
            Some(until) => at(&keys::newest_at(until - 1)),
            None => prefix.to_vec(),
        };
        let to = match self.query.since_ms {
            None | Some(0) => keys::after(prefix),
            Some(since) => at(&keys::newest_at(since - 1)),
        };
        let from = match &self.after {
            Some(after) => from.max(at(&[after.as_slice(), &[0]].concat())),
            None => from,
        };
        // An empty stretch of time is an empty page, not a range that runs backwards.
        let from = from.min(to.clone());
        (from, to)
    }
}

fn token(position: &keys::Position) -> String {
    super::blobs::hex(position)
}

fn parse_token(text: &str) -> Result<keys::Position, StoreError> {
    let bad = || StoreError::BadPage {
        token: text.chars().take(80).collect(),
    };
    if text.len() != 2 * keys::POSITION_LEN || !text.is_ascii() {
        return Err(bad());
    }
    let mut position = [0; keys::POSITION_LEN];
    for (byte, at) in position.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad())?;
    }
    Ok(position)
}
