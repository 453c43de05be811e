//! The numbers of the events that are owed to the coordinator. Events leave in the order of their numbers and are
//! owed until acknowledged, over lost sessions and restarts.
//!
//! The content of an event lies in its attempt's folder, so this file holds only numbers, and is synced only when it
//! is opened: each opening begins a new range of numbers, so a line that a power loss took away costs a second report
//! under a new number, never a number that is used twice.
//! A half-written last line is forgotten. A full disk costs durability of numbers, not the report.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use proto::v1::{Event, event};
use thiserror::Error;

use crate::durable::{self, DiskError};
use crate::folder::AgentFolder;

/// A file longer than this is written anew when nothing is owed.
const LONGEST: u64 = 256 << 10;
const HEAD: &str = "sweep-spool-1";
/// Each opening has as many numbers.
const RANGE: u32 = 32;

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{} is not a spool of this version; move it away to begin as a new agent", .0.display())]
    Foreign(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Started,
    Ended,
}

impl EventKind {
    fn of(event: &event::Event) -> Self {
        match event {
            event::Event::Started(_) => Self::Started,
            event::Event::Ended(_) => Self::Ended,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }
}

struct Owed {
    attempt: String,
    kind: EventKind,
    /// Set when it may go out on this session: for an ending, once all bytes before it have.
    event: Option<event::Event>,
}

pub struct Spool {
    path: PathBuf,
    /// Open once something is added.
    file: Option<File>,
    size: u64,
    id: String,
    epoch: u64,
    last: u64,
    owed: BTreeMap<u64, Owed>,
    /// Highest number that went out on this session.
    sent: u64,
}

impl Spool {
    pub fn open(folder: &AgentFolder) -> Result<Self, SpoolError> {
        let path = folder.spool();
        let known = match fs::read(&path) {
            Ok(bytes) => read(&bytes).ok_or_else(|| SpoolError::Foreign(path.clone()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Known::default(),
            Err(error) => return Err(DiskError::of("read", &path)(error).into()),
        };
        let is_owed = |(_, attempt): &(_, String)| {
            let id = attempt.parse::<jobs::AttemptId>().ok();
            let at = id.map(|id| folder.attempt(&id));
            at.is_some_and(|at| at.order().exists() && !at.is_acked())
        };
        let owed = known
            .owed
            .into_iter()
            .filter(|(_, (kind, attempt))| is_owed(&(*kind, attempt.clone())));
        let owed = owed.map(|(seq, (kind, attempt))| {
            (
                seq,
                Owed {
                    attempt,
                    kind,
                    event: None,
                },
            )
        });
        let epoch = known.epoch + 1;
        let mut spool = Self {
            file: None,
            path,
            size: 0,
            id: known.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
            epoch,
            last: epoch << RANGE,
            owed: owed.collect(),
            sent: 0,
        };
        spool.write_anew()?;
        Ok(spool)
    }

    /// Tells this spool from any other, and from one in a folder that was wiped.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A new session: what the coordinator has applied is not owed any more, and the rest goes out again. Returns
    /// what was acknowledged by it, and what may go out at once.
    pub fn begin(&mut self, applied: u64) -> (Vec<(String, EventKind)>, Vec<Event>) {
        let acked = self.ack(applied);
        self.sent = 0;
        for owed in self
            .owed
            .values_mut()
            .filter(|owed| owed.kind == EventKind::Ended)
        {
            // Its attempt sends the missing bytes first, and then hands it in again.
            owed.event = None;
        }
        (acked, self.ready())
    }

    /// Takes an event of an attempt. Returns what may go out now, in order.
    pub fn number(&mut self, attempt: &str, event: event::Event) -> Vec<Event> {
        let kind = EventKind::of(&event);
        let mut known = self.owed.values_mut();
        if let Some(owed) = known.find(|owed| owed.kind == kind && owed.attempt == attempt) {
            owed.event = Some(event);
            return self.ready();
        }
        self.last += 1;
        self.append(&format!("event {} {} {attempt}\n", self.last, kind.word()));
        let attempt = attempt.to_owned();
        self.owed.insert(
            self.last,
            Owed {
                attempt,
                kind,
                event: Some(event),
            },
        );
        self.ready()
    }

    /// Everything up to this number has been applied.
    pub fn ack(&mut self, seq: u64) -> Vec<(String, EventKind)> {
        let open = self.owed.split_off(&seq.saturating_add(1));
        let acked = std::mem::replace(&mut self.owed, open);
        if acked.is_empty() {
            return Vec::new();
        }
        self.append(&format!("ack {seq}\n"));
        if self.owed.is_empty()
            && self.size > LONGEST
            && let Err(error) = self.write_anew()
        {
            tracing::warn!(%error, "the spool is not shortened");
        }
        acked
            .into_values()
            .map(|owed| (owed.attempt, owed.kind))
            .collect()
    }

    /// The attempt is not this host's any more: nothing of it is owed.
    pub fn forget(&mut self, attempt: &str) {
        self.owed.retain(|_, owed| owed.attempt != attempt);
    }

    fn ready(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        for (seq, owed) in self.owed.range(self.sent + 1..) {
            let Some(event) = &owed.event else { break };
            let (seq, attempt) = (*seq, owed.attempt.clone());
            out.push(Event {
                seq,
                attempt,
                event: Some(event.clone()),
            });
            self.sent = seq;
        }
        out
    }

    fn append(&mut self, line: &str) {
        let written = self.file().and_then(|file| file.write_all(line.as_bytes()));
        match written {
            Ok(()) => self.size += line.len() as u64,
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "the spool is not written")
            }
        }
    }

    fn file(&mut self) -> std::io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        }
        self.file
            .as_mut()
            .ok_or(std::io::ErrorKind::NotFound.into())
    }

    fn write_anew(&mut self) -> Result<(), DiskError> {
        let mut text = format!("{HEAD} {} {}\n", self.id, self.epoch);
        for (seq, owed) in &self.owed {
            text.push_str(&format!(
                "event {seq} {} {}\n",
                owed.kind.word(),
                owed.attempt
            ));
        }
        // Not every Windows lets a file be replaced that is open.
        self.file = None;
        durable::replace_synced(&self.path, text.as_bytes())?;
        self.size = text.len() as u64;
        Ok(())
    }
}

#[derive(Default)]
struct Known {
    id: Option<String>,
    epoch: u64,
    owed: BTreeMap<u64, (EventKind, String)>,
}

/// Absent when this is not a spool. Lines that are cut off or unknown count for nothing.
fn read(bytes: &[u8]) -> Option<Known> {
    let text = String::from_utf8_lossy(bytes);
    let mut known = Known::default();
    // What follows the last line end is half a line.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines = whole.lines();
    let Some(head) = lines.next() else {
        // Opened for the first time and cut off before the first line.
        return text.is_empty().then_some(known);
    };
    let mut head = head.split(' ');
    if head.next()? != HEAD {
        return None;
    }
    known.id = Some(head.next()?.to_owned());
    known.epoch = head.next()?.parse().ok()?;
    for line in lines {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["event", seq, kind, attempt] => {
                let kind = match *kind {
                    "started" => EventKind::Started,
                    _ => EventKind::Ended,
                };
                let Ok(seq) = seq.parse() else { continue };
                known.owed.insert(seq, (kind, (*attempt).to_owned()));
            }
            ["ack", seq] => {
                let Ok(seq) = seq.parse::<u64>() else {
                    continue;
                };
                known.owed = known.owed.split_off(&seq.saturating_add(1));
            }
            _ => {}
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::v1::{Ended, Started};

    fn started() -> event::Event {
        event::Event::Started(Started { at_ms: 1 })
    }

    fn ended() -> event::Event {
        event::Event::Ended(Ended::default())
    }

    fn holding(attempts: &[&str]) -> (tempfile::TempDir, AgentFolder) {
        let folder = tempfile::tempdir().unwrap();
        let (agent, _lock) = AgentFolder::take(folder.path()).unwrap();
        for attempt in attempts {
            let at = agent.attempt(&attempt.parse().unwrap());
            fs::create_dir_all(at.path()).unwrap();
            fs::write(at.order(), "{}").unwrap();
        }
        (folder, agent)
    }

    fn shown(events: &[Event], base: u64) -> Vec<(u64, &str)> {
        events
            .iter()
            .map(|event| (event.seq - base, event.attempt.as_str()))
            .collect()
    }

    const A: &str = "a/1/train/1";
    const B: &str = "a/2/train/1";

    #[test]
    fn what_is_not_acknowledged_goes_out_again_under_its_number_and_in_order() {
        let (_keep, agent) = holding(&[A, B]);
        let mut spool = Spool::open(&agent).unwrap();
        let base = 1 << RANGE;
        assert!(spool.begin(0).1.is_empty());
        assert_eq!(shown(&spool.number(A, started()), base), [(1, A)]);
        assert_eq!(shown(&spool.number(A, ended()), base), [(2, A)]);
        assert_eq!(shown(&spool.number(B, started()), base), [(3, B)]);
        assert_eq!(spool.ack(base + 1), [(A.to_owned(), EventKind::Started)]);
        // The session is lost. B's start waits for A's ending, whose bytes go first.
        assert_eq!(spool.begin(base + 1), (vec![], vec![]));
        assert_eq!(shown(&spool.number(A, ended()), base), [(2, A), (3, B)]);
        assert!(spool.number(A, ended()).is_empty(), "once per session");
    }

    #[test]
    fn numbers_survive_a_restart_and_new_ones_are_higher() {
        let (_keep, agent) = holding(&[A, B]);
        let mut spool = Spool::open(&agent).unwrap();
        let id = spool.id().to_owned();
        spool.number(A, started());
        spool.number(A, ended());
        spool.ack((1 << RANGE) + 1);
        let mut file = OpenOptions::new().append(true).open(agent.spool()).unwrap();
        file.write_all(b"event 42949672").unwrap();
        let mut spool = Spool::open(&agent).unwrap();
        assert_eq!(spool.id(), id);
        assert!(spool.begin(0).1.is_empty());
        assert_eq!(shown(&spool.number(A, ended()), 1 << RANGE), [(2, A)]);
        assert_eq!(shown(&spool.number(B, started()), 2 << RANGE), [(1, B)]);
        assert_eq!(spool.begin((2 << RANGE) + 1).0.len(), 2);
    }

    #[test]
    fn what_its_folder_does_not_owe_is_not_owed() {
        let (_keep, agent) = holding(&[A, B]);
        let mut spool = Spool::open(&agent).unwrap();
        spool.number(A, ended());
        spool.number(B, ended());
        agent.attempt(&A.parse().unwrap()).write_acked().unwrap();
        fs::remove_dir_all(agent.attempt(&B.parse().unwrap()).path()).unwrap();
        assert!(Spool::open(&agent).unwrap().owed.is_empty());
    }

    #[test]
    fn another_file_is_refused() {
        let (_keep, agent) = holding(&[]);
        fs::write(agent.spool(), "something else\n").unwrap();
        assert!(matches!(Spool::open(&agent), Err(SpoolError::Foreign(_))));
    }
}
