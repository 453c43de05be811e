//! What hosts answer: whether they can rehearse, and what a rehearsal came to. A stream is on the disk before anything
//! follows from it; a failure is remembered for its host, and once no host is left the trial goes on without.

use std::time::Instant;

use proto::store::v1::RehearsalRecord;
use proto::v1::{CanRehearse, Rehearsed};
use vram::{Bytes, Kernels};

use super::content::{Unpacked, made_of, mode_word, workload_of};
use super::{Asked, BACKOFF, Failure, Stack, TRIES, WORKSPACE};
use crate::engine::{State, Work};
use crate::store::Store;

/// Where another try on another day comes to the same.
const FINAL: [&str; 1] = ["bad_recipe"];
/// Of the host's memory.
const OUT_OF_MEMORY: &str = "out_of_memory";

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
        let held_there = can.held.clone();
        let before = known.stack.can().map(str::to_owned);
        known.set_stack(match can.stack.as_str() {
            "" => Stack::Cannot(can.why_not),
            stack => Stack::Can(stack.to_owned()),
        });
        let now_can = known.stack.can().map(str::to_owned);
        if before != now_can {
            // Another stack, another chance; but what was too little memory is too little still.
            let allows = Bytes(known.record.rehearsal_memory_bytes);
            let still = |failure: &Failure| {
                let too_little = failure.memory.is_some_and(|had| allows <= had);
                too_little && now_can.as_ref() == Some(&failure.stack)
            };
            self.book
                .failures
                .retain(|(_, _, on), failure| on != host || still(failure));
        }
        self.note_strays(host, &held_there);
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

    /// `unpacked` is what its bytes say, read before by somebody who had the time.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::engine) fn on_rehearsed(
        &mut self,
        host: &str,
        session: u64,
        answer: Rehearsed,
        unpacked: Result<Unpacked, String>,
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
        let taken = match (answer.error.as_str(), unpacked) {
            ("", Ok(one)) => self.keep_rehearsal(host, &answer, one, store, (at, now), work),
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
        unpacked: Unpacked,
        store: &mut dyn Store,
        (at, now): (u64, Instant),
        work: &mut Work,
    ) -> Result<(), (String, String)> {
        let Some(asked) = self.book.asked.get(&answer.key).cloned() else {
            return Ok(());
        };
        let garbage = |why: &str| ("garbage".to_owned(), why.to_owned());
        // An agent of before knows no other cards, and says nothing of them.
        let cards = Kernels::from_word(match answer.device.as_str() {
            "" => Kernels::default().as_str(),
            device => device,
        });
        if cards != Some(asked.subject.kernels) {
            let asked = asked.subject.kernels.as_str();
            let why = format!("its host cannot rehearse for {asked}: its agent is older");
            return Err(("other_cards".to_owned(), why));
        }
        let record = record(host, answer, &asked, at);
        let workload = workload_of(&record).ok_or_else(|| garbage("its settings are lost"))?;
        let blob = store.put_blob(&answer.stream);
        let record = RehearsalRecord {
            blob: blob.map_err(|error| ("not_kept".to_owned(), error.to_string()))?,
            ..record
        };
        let stream = unpacked.stream;
        if !self.sizes.learn_stream(&workload, made_of(&record), stream) {
            return Err(garbage("its stream has no step"));
        }
        work.unused
            .extend(self.book.blob_of(&asked.subject, &record.key));
        let text = said(&record, asked.rank);
        self.tell_family(&answer.key, at, text, work);
        self.book.remember(record.clone());
        self.book.read(&record);
        self.book.last_done = Some(now);
        work.write(record);
        self.warm(&asked.subject, host, true, work);
        Ok(())
    }

    pub(super) fn note_failure(&mut self, key: &str, error: &str, message: &str, now: Instant) {
        let Some(asked) = self.book.asked.get(key) else {
            return;
        };
        let place = (asked.subject.clone(), asked.rank, asked.host.clone());
        let before = self.book.failures.get(&place);
        let tries = before.map_or(0, |failure| failure.tries) + 1;
        let failure = Failure {
            error: error.to_owned(),
            message: message.to_owned(),
            tries,
            until: now + BACKOFF,
            last: tries >= TRIES || FINAL.contains(&error),
            memory: self.too_little(&asked.host, error),
            stack: asked.stack.clone(),
        };
        if FINAL.contains(&error) {
            // Every host of this stack would say the same.
            let alike = self.hosts.values();
            let alike = alike.filter(|host| host.stack.can() == Some(asked.stack.as_str()));
            for host in alike {
                let place = (asked.subject.clone(), asked.rank, host.record.name.clone());
                self.book.failures.insert(place, failure.clone());
            }
        }
        self.book.failures.insert(place, failure);
    }

    /// What the host allows a rehearsal, where that was not enough.
    fn too_little(&self, host: &str, error: &str) -> Option<Bytes> {
        let allows = self.hosts.get(host)?.record.rehearsal_memory_bytes;
        (error == OUT_OF_MEMORY && allows > 0).then_some(Bytes(allows))
    }

    /// What it does that nobody here has asked for: a coordinator that was here before has.
    fn note_strays(&mut self, host: &str, held: &[String]) {
        let asked = &self.book.asked;
        let is_stray = |key: &&String| asked.get(*key).is_none_or(|one| one.host != host);
        let strays = held.iter().filter(is_stray).cloned().collect();
        self.book.strays.insert(host.to_owned(), strays);
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
                families.any(|(family, _)| *family == asked.subject.family)
            };
            if let Some((trial, kind)) = open.ready.iter().find(of_it) {
                let id = open.job_id(*trial, *kind);
                work.tell(open.number, at, id, "rehearsed", text.clone());
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
        kernels: asked.subject.kernels.as_str().to_owned(),
        peak_bytes: answer.peak_bytes,
        attempt: String::new(),
    }
}

const DOUBTS_MAX: usize = 32;
const DOUBT_MAX: usize = 400;

fn cut(text: &str) -> String {
    text.chars().take(DOUBT_MAX).collect()
}

/// `rank 96 rehearsed on box in 52 s with 1330 MiB (torch 2.15, ...)`
fn said(record: &RehearsalRecord, rank: u64) -> String {
    let versions: Vec<String> = record
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let (host, seconds) = (&record.host, record.seconds);
    let memory = match record.peak_bytes {
        0 => String::new(),
        bytes => format!(" with {:.0} MiB", Bytes(bytes).mib()),
    };
    format!(
        "rank {rank} rehearsed on {host} in {seconds:.0} s{memory} ({})",
        versions.join(", ")
    )
}
