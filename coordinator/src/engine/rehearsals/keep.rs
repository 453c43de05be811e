//! Streams between store, memory model and book: read, replayed aside, and let go of once others have taken their place.
//! Nothing is let go of while jobs wait for more of its family: until then the older pair may be what tells a size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::store::v1::RehearsalRecord;
use vram::Stream;

use super::book::Family;
use super::content::{made_of, subject_of, workload_of};
use super::wanted::AllWanted;
use super::{Subject, Waits, Warming};
use crate::engine::{State, Work};
use crate::schedule::rehearse;
use crate::store::Record;

impl State {
    /// Replays the subject's streams for all that needs them, beside the engine's thread: it takes seconds.
    pub(super) fn warm(&mut self, subject: &Subject, host: &str, awaited: bool, work: &mut Work) {
        let done = Arc::<AtomicBool>::default();
        self.book.warming.push(Warming {
            subject: subject.clone(),
            host: host.to_owned(),
            awaited,
            done: done.clone(),
        });
        let family = subject.family.clone();
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

    /// Streams that were too many to be read at the start, for sweeps that ask for them now. Whether there were any.
    pub(super) fn read_older(&mut self, wanted: &AllWanted) -> bool {
        let mut unread: Vec<RehearsalRecord> = Vec::new();
        for subject in wanted.keys() {
            if let Some(known) = self.book.families.get(subject) {
                let all = known.made.values().chain(known.recorded.values());
                unread.extend(all.filter(|one| known.unread.contains(&one.key)).cloned());
            }
        }
        for record in &unread {
            self.read_stream(record);
        }
        let families: BTreeSet<Arc<str>> = wanted
            .keys()
            .map(|subject| subject.family.clone())
            .collect();
        for family in families.iter().filter(|_| !unread.is_empty()) {
            self.sizes.count_streams(family);
        }
        !unread.is_empty()
    }

    /// From its blob into the memory model. One that is damaged is forgotten: it can be made again.
    pub(in crate::engine) fn read_stream(&mut self, record: &RehearsalRecord) {
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
                self.sizes.learn_stream(&workload, made_of(record), stream);
                self.book.read(record);
            }
            Err(error) => {
                tracing::warn!(
                    key = record.key,
                    error,
                    "a stream that was kept cannot be read; it is made again"
                );
                self.book.lose(record);
            }
        }
    }

    /// Lets go of what another has taken the place of, where nothing more of its subject is on its way. The record goes
    /// with this batch, the blob once that is durable.
    pub(super) fn retire_old(&mut self, open: &BTreeMap<Subject, Waits>, work: &mut Work) {
        let stacks: BTreeSet<String> = self
            .hosts
            .values()
            .filter_map(|host| host.stack.can().map(str::to_owned))
            .collect();
        let mut retired = Vec::new();
        for (subject, family) in &mut self.book.families {
            let busy = self.book.warming.iter().any(|one| one.subject == *subject);
            if open.contains_key(subject) || busy {
                continue;
            }
            outdate(family, &stacks);
            for record in std::mem::take(&mut family.old) {
                // One of before the cards were named has the same stream under another key.
                let mut made = family.made.values();
                let again = made.any(|one| one.stack == record.stack && alike(one, &record));
                retired.push((subject.clone(), record, again));
            }
        }
        for (subject, record, again) in retired {
            tracing::info!(
                key = record.key,
                stack = record.stack,
                "a stream is let go of: newer ones tell the same"
            );
            if let Some(workload) = workload_of(&record).filter(|_| !again) {
                self.sizes.forget_stream(&workload, &made_of(&record));
            }
            work.write(Record::ForgetRehearsal(record.key));
            work.unused.push(record.blob);
            if self.book.is_warming(&subject).is_none() {
                self.warm(&subject, &record.host, false, work);
            }
        }
    }

    /// Whether some record names this blob: a sweep's, or a stream's.
    pub(in crate::engine) fn names_blob(&self, digest: &str) -> bool {
        let mut sweeps = self.heads.values();
        self.book.names_blob(digest)
            || sweeps.any(|head| {
                head.blob == digest || head.attachments.values().any(|blob| blob == digest)
            })
    }
}

fn alike(one: &RehearsalRecord, other: &RehearsalRecord) -> bool {
    subject_of(one) == subject_of(other)
}

/// Ranks that only versions of the past have made, once those of today tell them.
fn outdate(family: &mut Family, stacks: &BTreeSet<String>) {
    let made = family.made.iter();
    let made = made.map(|(rank, record)| (*rank, record.stack.as_str()));
    for rank in rehearse::superseded(&made.collect(), stacks) {
        family.old.extend(family.made.remove(&rank));
    }
}
