//! From the store's records back to a sweep's life: its events are applied again, in their own order, by the same
//! function that applied them first. Refuses a sweep file that this version would expand differently.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use jobs::life::{Event, Sweep};
use jobs::{AttemptId, Kind};
use prost::Message as _;
use proto::store::v1::FileManifest;
use proto::v1::StagedFile;
use serde_json::Value;
use tokio::sync::broadcast;
use vram::Knowledge;

use super::fleet::{Held, Host};
use super::{Book, OpenSweep, Sizes, State, Timing, rehearsals};
use crate::live::Live;
use crate::store::{AttemptRecord, Loaded, Reader, StoreError, SweepRecord, SweepRecords};

/// Lines kept for a watcher that is slow; one that falls behind further starts from the state anew.
const FEED: usize = 4096;

impl State {
    pub fn load(
        data: PathBuf,
        reader: Arc<dyn Reader>,
        live: Arc<Live>,
        timing: Timing,
        now: Instant,
    ) -> Result<Self, StoreError> {
        let loaded = reader.load()?;
        let mut knowledge = Knowledge::seeds();
        let newest_observation = loaded.observations.last().map_or(0, |one| one.number);
        for record in &loaded.observations {
            let known = serde_json::from_str(&record.json)
                .map_err(|error| damaged("an observation", &error))?;
            knowledge.learn(known);
        }
        let mut state = Self {
            open: BTreeMap::new(),
            by_id: HashMap::new(),
            heads: BTreeMap::new(),
            hosts: BTreeMap::new(),
            sizes: Sizes::new(knowledge),
            book: Book::default(),
            waiting: BTreeMap::new(),
            data,
            reader,
            live,
            timing,
            fleet_complete: false,
            on_hold: false,
            fleet_grew: now,
            newest_sweep: loaded.newest_sweep,
            newest_observation,
            newest_session: 0,
            last_round: now,
            feed: broadcast::channel(FEED).0,
        };
        state.take(loaded, now)?;
        Ok(state)
    }

    fn take(&mut self, loaded: Loaded, now: Instant) -> Result<(), StoreError> {
        for record in loaded.hosts {
            // Every host is given its grace anew: it may be dialling at this moment.
            let host = Host::new(record, now);
            for class in &host.classes {
                self.sizes.class(class);
            }
            self.hosts.insert(host.record.name.clone(), host);
        }
        let (newest, older) = rehearsals::newest(loaded.rehearsals);
        for record in newest {
            if self.book.remember(record.clone()) {
                self.read_stream(&record);
            }
        }
        for record in older {
            self.book.remember(record);
        }
        for mut head in loaded.heads {
            head.toml.clear();
            if let Ok(id) = head.id.parse() {
                self.by_id.insert(id, head.number);
            }
            self.heads.insert(head.number, head);
        }
        for records in loaded.open {
            self.reopen(&records)?;
        }
        Ok(())
    }

    /// Brings a sweep back into memory.
    pub(super) fn reopen(&mut self, records: &SweepRecords) -> Result<(), StoreError> {
        let life = life_of(self.reader.as_ref(), records)?;
        let attached = open_files(self.reader.as_ref(), &records.sweep)?;
        let mut record = records.sweep.clone();
        record.toml.clear();
        let mut open = OpenSweep::new(record, life, &attached, &mut self.sizes)
            .map_err(|error| damaged("a sweep's recipe", &error))?;
        open.files = travelling(self.reader.as_ref(), &records.sweep)?;
        open.order = 1 + last_order(records);
        self.heads.insert(open.number, open.record.clone());
        self.by_id.insert(open.life.id.clone(), open.number);
        for attempt in &records.attempts {
            if let Some(kind) = Kind::from_number(attempt.kind) {
                let key = (attempt.trial, kind, attempt.number);
                open.orders
                    .insert(key, (attempt.placed_order, attempt.ended_order));
                if !attempt.stream.is_empty() {
                    open.streams.insert(key, attempt.stream.clone());
                }
            }
            self.hold(&open, attempt);
        }
        let number = open.number;
        self.open.insert(number, open);
        self.show_again(number);
        Ok(())
    }

    fn hold(&mut self, open: &OpenSweep, record: &AttemptRecord) {
        let active = record.outcome.is_empty();
        let (Some(host), Some(id), true) = (
            self.hosts.get_mut(&record.host),
            attempt_id(open, record),
            active,
        ) else {
            return;
        };
        host.active.insert(
            id,
            Held {
                devices: record.devices.clone(),
                grant: vram::Bytes(record.grant_bytes),
            },
        );
    }
}

fn attempt_id(open: &OpenSweep, record: &AttemptRecord) -> Option<AttemptId> {
    let kind = Kind::from_number(record.kind)?;
    Some(open.job_id(record.trial, kind).attempt(record.number))
}

fn damaged(what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        path: "the store".into(),
        what: format!("{what}: {error}"),
    }
}

fn last_order(records: &SweepRecords) -> u64 {
    let attempts = records.attempts.iter();
    let of_attempts = attempts
        .map(|one| one.placed_order.max(one.ended_order))
        .max();
    let of_rulings = records.rulings.iter().map(|one| one.order).max();
    let of_marks = records.marks.iter().map(|one| one.order).max();
    of_attempts.max(of_rulings).max(of_marks).unwrap_or(0)
}

/// The files that travelled with a sweep file, as JSON.
pub fn open_files(
    reader: &dyn Reader,
    sweep: &SweepRecord,
) -> Result<BTreeMap<String, Value>, StoreError> {
    let mut files = BTreeMap::new();
    for (path, digest) in &sweep.attachments {
        let bytes = reader.blob(digest)?;
        let value = serde_json::from_slice(&bytes).map_err(|error| damaged(path, &error))?;
        files.insert(path.clone(), value);
    }
    Ok(files)
}

/// The files that travel with a sweep: none of one that was submitted before files could.
pub fn travelling(reader: &dyn Reader, sweep: &SweepRecord) -> Result<Vec<StagedFile>, StoreError> {
    if sweep.manifest.is_empty() {
        return Ok(Vec::new());
    }
    let what = format!("the list of files of sweep {}", sweep.id);
    let bytes = reader.blob(&sweep.manifest)?;
    let record = FileManifest::decode(&*bytes).map_err(|error| damaged(&what, &error))?;
    let manifest = proto::convert::manifest_of(&record).map_err(|error| damaged(&what, &error))?;
    Ok(proto::convert::manifest_message(&manifest))
}

/// A sweep's life from its records.
pub fn life_of(reader: &dyn Reader, records: &SweepRecords) -> Result<Sweep, StoreError> {
    let head = &records.sweep;
    let text = reader.file(head)?;
    let plan = jobs::plan::load(&head.file_name, &text)
        .map_err(|error| damaged(&format!("the file of sweep {}", head.id), &error))?;
    if plan.digest() != head.plan_digest {
        let what = format!(
            "sweep {} was planned by another version of this program, which numbered its trials otherwise; \
             finish it with that version, or cancel it there",
            head.id
        );
        return Err(damaged("the plan", &what));
    }
    let id = head
        .id
        .parse()
        .map_err(|error| damaged("a sweep's id", &error))?;
    let mut life = Sweep::new(id, head.submitted_ms, plan);
    for (_, event) in events(&life, records)? {
        life.apply(&event)
            .map_err(|error| damaged(&format!("the events of sweep {}", head.id), &error))?;
    }
    Ok(life)
}

/// Everything that happened to a sweep, in order.
fn events(life: &Sweep, records: &SweepRecords) -> Result<Vec<(u64, Event)>, StoreError> {
    let unreadable = |error: proto::convert::Unreadable| damaged("a record", &error);
    let mut events = Vec::with_capacity(records.attempts.len() * 2);
    for record in &records.attempts {
        let one = proto::convert::attempt(record).map_err(unreadable)?;
        let kind = Kind::from_number(record.kind)
            .ok_or_else(|| damaged("an attempt's record", &"its kind is not known"))?;
        let id = life.id.trial(record.trial).job(kind).attempt(record.number);
        let placed = Event::Placed {
            trial: record.trial,
            kind,
            placement: Box::new(one.placement.clone()),
            at: one.placed_at,
        };
        events.push((record.placed_order * 2, placed));
        if let Some(at) = one.started_at() {
            let started = Event::Started {
                attempt: id.clone(),
                at,
            };
            events.push((record.placed_order * 2 + 1, started));
        }
        if let (Some(at), Some(ending)) = (one.ended_at(), one.ending()) {
            let ended = Event::Ended {
                attempt: id.clone(),
                at,
                ending: Box::new(ending.clone()),
            };
            events.push((record.ended_order * 2, ended));
        }
        if let Some(late) = one.late {
            let evidence = Event::Ended {
                attempt: id,
                at: record.ended_ms,
                ending: Box::new(jobs::Ending::bare(late, "")),
            };
            events.push((u64::MAX, evidence));
        }
    }
    for record in &records.rulings {
        let event = proto::convert::ruling(record).map_err(unreadable)?;
        events.push((record.order * 2, event));
    }
    for record in &records.marks {
        let mark = proto::convert::mark(record).map_err(unreadable)?;
        events.push((record.order * 2, Event::Marked(mark)));
    }
    events.sort_by_key(|(order, _)| *order);
    Ok(events)
}
