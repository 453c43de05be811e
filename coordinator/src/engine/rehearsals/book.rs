//! The book of streams: by what they tell of, which are kept and by which record, which are being made, which failed.
//! The same as the store's, but for what is under way. It asks for nothing and reads no stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use proto::store::v1::RehearsalRecord;
use vram::Kernels;

use super::content::{is_recorded, subject_of};
use super::{Asked, Failure, LOADED_MAX, Strays, Subject, Waits, Warming};
use crate::schedule::{NeedId, Rehearsal};

#[derive(Default)]
pub struct Family {
    /// Rehearsed, by rank.
    pub made: BTreeMap<u64, RehearsalRecord>,
    /// On a card, by rank.
    pub recorded: BTreeMap<u64, RehearsalRecord>,
    /// Another of the same content has taken its place; kept as long as jobs wait for more of the family.
    pub(super) old: Vec<RehearsalRecord>,
    /// When jobs began to wait for one; `None` while none is wanted.
    pub(super) since: Option<Instant>,
    /// Keys of what is not in the memory model yet.
    pub(super) unread: BTreeSet<String>,
}

impl Family {
    pub(super) fn records(&self) -> impl Iterator<Item = &RehearsalRecord> {
        let kept = self.made.values().chain(self.recorded.values());
        kept.chain(&self.old)
    }
}

#[derive(Default)]
pub struct Book {
    pub families: BTreeMap<Subject, Family>,
    /// By key.
    pub asked: BTreeMap<String, Asked>,
    /// By (subject, rank, host).
    pub failures: BTreeMap<(Subject, u64, String), Failure>,
    /// By host.
    pub(super) strays: BTreeMap<String, Strays>,
    pub(super) warming: Vec<Warming>,
    /// Needs whose jobs wait, and for whom: as of the last round.
    pub(super) waiting: BTreeMap<NeedId, Waits>,
    pub(super) last_done: Option<Instant>,
}

impl Book {
    pub fn waits(&self, need: NeedId) -> Option<Rehearsal<'_>> {
        self.waiting.get(&need).map(|waits| match waits {
            Waits::Queued => Rehearsal::Queued,
            Waits::Looking(host) => Rehearsal::Looking(host),
            Waits::Running(host) => Rehearsal::Running(host),
        })
    }

    /// Rehearsals that a host does now.
    pub fn on(&self, host: &str) -> u32 {
        let here = self.asked.values().filter(|asked| asked.host == host);
        let strays = self.strays.get(host).map_or(0, BTreeSet::len);
        u32::try_from(here.count() + strays).unwrap_or(u32::MAX)
    }

    /// What a need's size follows from: its own rank's, or the two that it is scaled from; a recorded one before a
    /// rehearsed one.
    pub fn behind(&self, subject: &Subject, rank: u64) -> Vec<(u64, &RehearsalRecord)> {
        let Some(family) = self.families.get(subject) else {
            return Vec::new();
        };
        let sets = [&family.recorded, &family.made];
        if let Some(own) = sets.iter().find_map(|set| set.get(&rank)) {
            return vec![(rank, own)];
        }
        let two = sets.iter().find(|set| set.len() >= 2);
        let set = two.or_else(|| sets.iter().find(|set| !set.is_empty()));
        let all = set.into_iter().flat_map(|set| set.iter());
        let mut all: Vec<_> = all.map(|(at, one)| (*at, one)).collect();
        all.sort_by_key(|(at, _)| at.abs_diff(rank));
        all.truncate(2);
        all
    }

    pub fn is_empty(&self) -> bool {
        self.families.is_empty() && self.asked.is_empty() && self.failures.is_empty()
    }

    /// A family on each group of cards.
    pub fn subjects(family: &Arc<str>) -> [Subject; 3] {
        Kernels::ALL.map(|kernels| Subject {
            family: family.clone(),
            kernels,
        })
    }

    /// Where rehearsals of a subject have failed.
    pub fn failed(
        &self,
        subject: &Subject,
    ) -> impl Iterator<Item = (&(Subject, u64, String), &Failure)> {
        self.failures
            .iter()
            .filter(move |((of, ..), _)| of == subject)
    }

    pub(super) fn is_warming(&self, subject: &Subject) -> Option<&Warming> {
        self.warming.iter().find(|one| one.subject == *subject)
    }

    /// What has been replayed for all that needs it.
    pub(super) fn warmed(&mut self) -> Vec<Subject> {
        let is_done = |one: &Warming| one.done.load(Ordering::Acquire);
        let done = self.warming.iter().filter(|one| is_done(one));
        let done = done.map(|one| one.subject.clone()).collect();
        self.warming.retain(|one| !is_done(one));
        done
    }

    /// From the store, or new in it. Of two of one content the newer counts. Whether this one does, and is to be read
    /// into the memory model.
    pub fn remember(&mut self, record: RehearsalRecord) -> bool {
        let Some((subject, rank)) = subject_of(&record) else {
            return false;
        };
        let family = self.families.entry(subject).or_default();
        let set = match is_recorded(&record) {
            true => &mut family.recorded,
            false => &mut family.made,
        };
        let known = set.get(&rank).filter(|known| known.key != record.key);
        if known.is_some_and(|known| known.at_ms > record.at_ms) {
            family.old.push(record);
            return false;
        }
        family.unread.insert(record.key.clone());
        let key = record.key.clone();
        let before = set.insert(rank, record);
        family.old.extend(before.filter(|before| before.key != key));
        true
    }

    /// Its blob is gone.
    pub(super) fn lose(&mut self, record: &RehearsalRecord) {
        let known = subject_of(record);
        let family = known.and_then(|(subject, _)| self.families.get_mut(&subject));
        if let Some(family) = family {
            family.made.retain(|_, one| one.key != record.key);
            family.recorded.retain(|_, one| one.key != record.key);
            family.unread.remove(&record.key);
        }
    }

    /// It is in the memory model.
    pub(super) fn read(&mut self, record: &RehearsalRecord) {
        let known = subject_of(record);
        if let Some(family) = known.and_then(|(subject, _)| self.families.get_mut(&subject)) {
            family.unread.remove(&record.key);
        }
    }

    /// Of the record of this key.
    pub(super) fn blob_of(&self, subject: &Subject, key: &str) -> Option<String> {
        let mut records = self.families.get(subject)?.records();
        Some(records.find(|record| record.key == key)?.blob.clone())
    }

    pub(super) fn names_blob(&self, digest: &str) -> bool {
        let mut all = self.families.values().flat_map(Family::records);
        all.any(|record| record.blob == digest)
    }
}

/// The newest first, as many as are read into memory at the start.
pub fn newest(mut all: Vec<RehearsalRecord>) -> (Vec<RehearsalRecord>, Vec<RehearsalRecord>) {
    all.sort_by_key(|record| std::cmp::Reverse(record.at_ms));
    let rest = all.split_off(all.len().min(LOADED_MAX));
    (all, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vram::Workload;

    use super::super::content::settings_of;
    use super::super::content::tests::workload;
    use super::*;

    fn record(workload: &Workload, key: &str, at_ms: u64) -> RehearsalRecord {
        RehearsalRecord {
            key: key.into(),
            settings: serde_json::to_string(&settings_of(workload)).expect("text"),
            mode: "train".into(),
            stack: format!("kit {key}"),
            at_ms,
            ..RehearsalRecord::default()
        }
    }

    fn recorded(workload: &Workload, key: &str, at_ms: u64) -> RehearsalRecord {
        RehearsalRecord {
            attempt: "a/1/train/1".into(),
            ..record(workload, key, at_ms)
        }
    }

    fn ranks(found: &[(u64, &RehearsalRecord)]) -> Vec<u64> {
        found.iter().map(|one| one.0).collect()
    }

    #[test]
    fn what_is_kept_is_found_again_by_the_trials_own_family() {
        let mut book = Book::default();
        for (rank, at) in [(8, 2), (32, 1)] {
            let one = workload(&json!({ "rank": rank }));
            assert!(book.remember(record(&one, &format!("k{rank}"), at)));
        }
        let (family, rank) = workload(&json!({"rank": 16, "alpha": 32}))
            .family()
            .expect("a family");
        let subjects = Book::subjects(&family.into());
        let [_, subject, rocm] = &subjects;
        assert_eq!(ranks(&book.behind(subject, rank)), [8, 32]);
        assert_eq!(ranks(&book.behind(subject, 32)), [32]);
        assert!(book.behind(rocm, 32).is_empty());
        // An older one does not take its place, and is not forgotten either: it is in the store.
        assert!(!book.remember(record(&workload(&json!({})), "older", 1)));
        assert_eq!(book.families[subject].old.len(), 1);
        // A newer one does. The same again is the same.
        let newer = record(&workload(&json!({})), "newer", 3);
        assert!(book.remember(newer.clone()) && book.remember(newer));
        let old: Vec<&str> = book.families[subject]
            .old
            .iter()
            .map(|one| one.key.as_str())
            .collect();
        assert_eq!(old, ["older", "k8"]);
    }

    #[test]
    fn what_a_card_showed_is_named_before_what_was_rehearsed() {
        let mut book = Book::default();
        let of = |rank| workload(&json!({ "rank": rank }));
        for rank in [8, 32] {
            assert!(book.remember(record(&of(rank), &format!("k{rank}"), 1)));
        }
        assert!(book.remember(recorded(&of(8), "r8", 1)));
        let (family, _) = of(8).family().expect("a family");
        let [_, subject, _] = Book::subjects(&family.into());
        assert_eq!(book.behind(&subject, 8)[0].1.key, "r8");
        let keys = |book: &Book| -> Vec<String> {
            let found = book.behind(&subject, 16);
            found.iter().map(|one| one.1.key.clone()).collect()
        };
        assert_eq!(
            keys(&book),
            ["k8", "k32"],
            "one recorded alone does not scale"
        );
        assert!(book.remember(recorded(&of(32), "r32", 1)));
        assert_eq!(keys(&book), ["r8", "r32"]);
        assert!(book.families[&subject].old.is_empty());
    }
}
