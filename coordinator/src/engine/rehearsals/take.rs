//! What hosts answer: whether they can rehearse, and what a rehearsal came to. A stream is on the disk before anything
//! follows from it; a failure is remembered for its host, and once no host is left the trial goes on without.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use proto::store::v1::RehearsalRecord;
use proto::v1::{CanRehearse, Rehearsed};
use vram::{Bytes, Stream};

use super::ask::Wanted;
use super::content::{mode_word, workload_of};
use super::{Asked, BACKOFF, Failure, Stack, TRIES, WORKSPACE, Warming};
use crate::engine::{State, Work};
use crate::store::Store;

/// Where another try on another day comes to the same.
const FINAL: [&str; 1] = ["bad_recipe"];

impl State {
    pub(in crate::engine) fn on_can_rehearse(
        &mut self,
        host: &str,
        session: u64,
        can: CanRehearse,
        now: Instant,
        work: &mut Work,
    ) {
        if !self.hears(host, session, now) {
            return;
        }
        let Some(known) = self.hosts.get_mut(host) else {
            return;
        };
        let before = known.stack.can().map(str::to_owned);
        known.stack = match can.stack.as_str() {
            "" => Stack::Cannot(can.why_not),
            stack => Stack::Can(stack.to_owned()),
        };
        let now_can = known.stack.can().map(str::to_owned);
        if before != now_can {
            // Another stack, another chance.
            self.book.failures.retain(|(_, _, on), _| on != host);
        }
        let held = self
            .book
            .asked
            .iter()
            .filter(|(_, asked)| asked.host == host);
        let held: Vec<(String, bool)> = held
            .map(|(key, asked)| (key.clone(), now_can.as_ref() == Some(&asked.stack)))
            .collect();
        for (key, same) in held {
            if same {
                work.then(move |state| state.send_rehearsal(&key));
            } else {
                self.forget_rehearsal(&key, work);
            }
        }
        work.dirty = true;
    }

    /// `stream` is what its bytes say, read before by somebody who had the time.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::engine) fn on_rehearsed(
        &mut self,
        host: &str,
        session: u64,
        answer: Rehearsed,
        stream: Result<Stream, String>,
        store: &mut dyn Store,
        at: u64,
        now: Instant,
        work: &mut Work,
    ) {
        if !self.hears(host, session, now) {
            return;
        }
        let asked = self.book.asked.get(&answer.key);
        if asked.is_none_or(|asked| asked.host != host) {
            tracing::debug!(host, key = answer.key, "a rehearsal that nobody waits for");
            return;
        }
        work.dirty = true;
        let taken = match (answer.error.as_str(), stream) {
            ("", Ok(stream)) => self.keep_rehearsal(host, &answer, stream, store, (at, now), work),
            ("", Err(why)) => Err(("garbage".to_owned(), why)),
            (error, _) => Err((error.to_owned(), answer.message.clone())),
        };
        if let Err((error, why)) = taken {
            tracing::warn!(host, key = answer.key, error, why, "a rehearsal failed");
            let text = format!("the rehearsal on {host} failed ({error}): {why}");
            self.tell_family(&answer.key, at, text, work);
            self.note_failure(&answer.key, &error, &why, now);
        }
        self.book.asked.remove(&answer.key);
    }

    fn keep_rehearsal(
        &mut self,
        host: &str,
        answer: &Rehearsed,
        stream: Stream,
        store: &mut dyn Store,
        (at, now): (u64, Instant),
        work: &mut Work,
    ) -> Result<(), (String, String)> {
        let Some(asked) = self.book.asked.get(&answer.key).cloned() else {
            return Ok(());
        };
        let garbage = |why: &str| ("garbage".to_owned(), why.to_owned());
        let record = record(host, answer, &asked, at);
        let workload = workload_of(&record).ok_or_else(|| garbage("its settings are lost"))?;
        let blob = store.put_blob(&answer.stream);
        let record = RehearsalRecord {
            blob: blob.map_err(|error| ("not_kept".to_owned(), error.to_string()))?,
            ..record
        };
        let doubtful = !record.doubts.is_empty();
        if !self
            .sizes
            .learn_stream(&workload, WORKSPACE, stream, doubtful)
        {
            return Err(garbage("its stream has no step"));
        }
        let text = said(&record, asked.rank);
        self.tell_family(&answer.key, at, text, work);
        self.book.remember(record.clone());
        self.book.read(&workload);
        self.book.last_done = Some(now);
        work.write(record);
        self.warm(&asked.family, host, work);
        Ok(())
    }

    /// Replays the family's streams for all that needs them, beside the engine's thread: it takes seconds.
    fn warm(&mut self, family: &Arc<str>, host: &str, work: &mut Work) {
        let done = Arc::<AtomicBool>::default();
        self.book.warming.push(Warming {
            family: family.clone(),
            host: host.to_owned(),
            done: done.clone(),
        });
        let family = family.clone();
        work.then(move |state| {
            let (needs, classes) = state.sizes.asked_of(&family);
            let knowledge = state.sizes.shared_knowledge();
            let ask = {
                let done = done.clone();
                move || {
                    for workload in &needs {
                        for class in &classes {
                            let _ = vram::estimate(workload, class, &knowledge);
                        }
                    }
                    done.store(true, Ordering::Release);
                }
            };
            let thread = std::thread::Builder::new().name("replays".into());
            if thread.spawn(ask).is_err() {
                // Then the next round does it itself.
                done.store(true, Ordering::Release);
            }
        });
    }

    pub(super) fn note_failure(&mut self, key: &str, error: &str, message: &str, now: Instant) {
        let Some(asked) = self.book.asked.get(key) else {
            return;
        };
        let place = (asked.family.clone(), asked.rank, asked.host.clone());
        let before = self.book.failures.get(&place);
        let tries = before.map_or(0, |failure| failure.tries) + 1;
        let failure = Failure {
            error: error.to_owned(),
            message: message.to_owned(),
            tries,
            until: now + BACKOFF,
            last: tries >= TRIES || FINAL.contains(&error),
        };
        if FINAL.contains(&error) {
            // Every host of this stack would say the same.
            let alike = self.hosts.values();
            let alike = alike.filter(|host| host.stack.can() == Some(asked.stack.as_str()));
            for host in alike {
                let place = (asked.family.clone(), asked.rank, host.record.name.clone());
                self.book.failures.insert(place, failure.clone());
            }
        }
        self.book.failures.insert(place, failure);
    }

    /// Those who watch a sweep that this is for are told.
    fn tell_family(&self, key: &str, at: u64, text: String, work: &mut Work) {
        let Some(asked) = self.book.asked.get(key) else {
            return;
        };
        for open in self.open.values() {
            let of_it = |(trial, kind): &&(u32, jobs::Kind)| {
                let need = open.need(*trial, *kind).into_iter();
                let needs = need.chain(open.need(*trial, jobs::Kind::Train));
                let mut families = needs.filter_map(|need| self.sizes.family(need));
                families.any(|(family, _)| *family == asked.family)
            };
            if let Some((trial, kind)) = open.ready.iter().find(of_it) {
                let id = open.job_id(*trial, *kind);
                work.tell(open.number, at, id, "rehearsed", text.clone());
            }
        }
    }

    /// Streams that were too many to be read at the start, for sweeps that ask for them now.
    pub(super) fn read_older(&mut self, wanted: &BTreeMap<Arc<str>, Wanted>) {
        let families = wanted.keys().filter_map(|family| {
            let known = self.book.families.get(family)?;
            (!known.unread.is_empty()).then(|| family.clone())
        });
        for family in families.collect::<Vec<_>>() {
            let Some(known) = self.book.families.get(&family) else {
                continue;
            };
            let unread = known.unread.iter().filter_map(|rank| known.made.get(rank));
            for record in unread.cloned().collect::<Vec<_>>() {
                self.read_rehearsal(&record);
            }
            self.sizes.count_streams(&family);
        }
    }

    /// From its blob into the memory model. One that is damaged is forgotten: it can be made again.
    pub(in crate::engine) fn read_rehearsal(&mut self, record: &RehearsalRecord) {
        let Some(workload) = workload_of(record) else {
            return;
        };
        let read = |bytes: Vec<u8>| Stream::read(&bytes).map_err(|error| error.to_string());
        let stream = self
            .reader
            .blob(&record.blob)
            .map_err(|error| error.to_string());
        match stream.and_then(read) {
            Ok(stream) => {
                let workspace = Bytes(record.workspace_bytes);
                let doubtful = !record.doubts.is_empty();
                self.sizes
                    .learn_stream(&workload, workspace, stream, doubtful);
                self.book.read(&workload);
            }
            Err(error) => {
                tracing::warn!(
                    key = record.key,
                    error,
                    "a rehearsal that was kept cannot be read; it is made again"
                );
                self.book.lose(&workload);
            }
        }
    }
}

fn record(host: &str, answer: &Rehearsed, asked: &Asked, at: u64) -> RehearsalRecord {
    RehearsalRecord {
        key: answer.key.clone(),
        settings: serde_json::to_string(&asked.settings).unwrap_or_default(),
        mode: mode_word(asked.mode).to_owned(),
        workspace_bytes: WORKSPACE.0,
        stack: asked.stack.clone(),
        blob: String::new(),
        versions: answer.versions.clone(),
        doubts: answer
            .doubts
            .iter()
            .take(DOUBTS_MAX)
            .map(|doubt| cut(doubt))
            .collect(),
        host: host.to_owned(),
        seconds: answer.seconds,
        at_ms: at,
    }
}

const DOUBTS_MAX: usize = 32;
const DOUBT_MAX: usize = 400;

fn cut(text: &str) -> String {
    text.chars().take(DOUBT_MAX).collect()
}

/// `rank 96 rehearsed on box in 52 s (torch 2.15, ...)`
pub(in crate::engine) fn said(record: &RehearsalRecord, rank: u64) -> String {
    let versions: Vec<String> = record
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let (host, seconds) = (&record.host, record.seconds);
    format!(
        "rank {rank} rehearsed on {host} in {seconds:.0} s ({})",
        versions.join(", ")
    )
}
