//! Once before each round: rehearsals are asked for, from the jobs that are ready; which jobs wait for them, and what is
//! not wanted any more. Decides neither ranks nor hosts.

use std::collections::BTreeMap;
use std::time::Instant;

use jobs::Kind;
use jobs::life::JobState;
use proto::v1::ForgetRehearsal;
use proto::v1::coordinator_message::Message;

use super::wanted::AllWanted;
use super::{Stack, Subject, Waits};
use crate::engine::{OpenSweep, State, Work};
use crate::schedule::NeedId;

impl State {
    pub(in crate::engine) fn ask_for_rehearsals(&mut self, now: Instant, work: &mut Work) {
        for subject in self.book.warmed() {
            self.sizes.count_streams(&subject.family);
            work.dirty = true;
        }
        self.give_up_silent(now, work);
        let hosts = self.hosts.values();
        let any = hosts
            .into_iter()
            .any(|host| !matches!(host.stack, Stack::Cannot(_)));
        if !any && self.book.asked.is_empty() {
            self.book.waiting.clear();
            self.retire_old(&BTreeMap::new(), work);
            return;
        }
        let mut wanted = self.wanted();
        self.forget_unwanted(work);
        if self.read_older(&wanted) {
            // A recorded stream may be among them, and then nothing is to be rehearsed.
            wanted = self.wanted();
        }
        let orders = self.orders(&wanted, now);
        let open = self.send_orders(&orders, now, work);
        self.forget_strays(work);
        self.book.waiting = self.waiting_for(&wanted, &open, now);
        self.retire_old(&open, work);
    }

    /// By need: jobs wait for what is to come, but not for ever.
    fn waiting_for(
        &mut self,
        wanted: &AllWanted,
        open: &BTreeMap<Subject, Waits>,
        now: Instant,
    ) -> BTreeMap<NeedId, Waits> {
        let mut waiting = BTreeMap::new();
        for (subject, wanted) in wanted {
            let warming = self.book.is_warming(subject).filter(|one| one.awaited);
            let warming = warming.map(|one| Waits::Running(one.host.clone()));
            let Some(waits) = open.get(subject).cloned().or(warming) else {
                continue;
            };
            let last_done = self.book.last_done;
            let entry = self.book.families.entry(subject.clone()).or_default();
            let since = *entry.since.get_or_insert(now);
            // As long as rehearsals come in, those behind them are worth waiting for.
            let since = last_done.map_or(since, |done| done.max(since));
            if now.duration_since(since) < self.timing.rehearsal_wait {
                for need in &wanted.needs {
                    waiting.insert(*need, waits.clone());
                }
            }
        }
        for (subject, known) in &mut self.book.families {
            if !open.contains_key(subject) {
                known.since = None;
            }
        }
        waiting
    }

    /// Of no open trial any more, because its sweep was cancelled or has ended. What was placed meanwhile, because it
    /// fits anyhow, may still be placed again.
    fn forget_unwanted(&mut self, work: &mut Work) {
        let unwanted = self.book.asked.iter();
        let unwanted = unwanted.filter(|(_, asked)| !self.is_of_use(&asked.subject.family));
        let keys: Vec<String> = unwanted.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.forget_rehearsal(&key, work);
        }
    }

    fn is_of_use(&self, family: &str) -> bool {
        let open_job = |open: &OpenSweep, trial: u32, kind: Kind| {
            let need = open.need(trial, kind);
            let of_family = need.and_then(|need| self.sizes.family(need));
            let state = open.life.state(trial, kind);
            of_family.is_some_and(|(own, _)| **own == *family)
                && !matches!(state, None | Some(JobState::Settled(_)))
        };
        self.open.values().any(|open| {
            (1..=open.trials()).any(|trial| {
                open_job(open, trial, Kind::Train) || open_job(open, trial, Kind::Probe)
            })
        })
    }

    /// What an earlier coordinator asked for and nothing here has asked for again: its slot is wanted for others.
    fn forget_strays(&mut self, work: &mut Work) {
        for (host, keys) in std::mem::take(&mut self.book.strays) {
            for key in keys {
                tracing::info!(host, key, "a rehearsal that nobody waits for is ended");
                let host = host.clone();
                work.then(move |state| state.tell_to_forget(&host, key));
            }
        }
    }

    pub(super) fn forget_rehearsal(&mut self, key: &str, work: &mut Work) {
        let Some(asked) = self.book.asked.remove(key) else {
            return;
        };
        tracing::info!(
            host = asked.host,
            key,
            "a rehearsal is not waited for any more"
        );
        let (host, key) = (asked.host, key.to_owned());
        work.then(move |state| state.tell_to_forget(&host, key));
    }

    fn tell_to_forget(&self, host: &str, key: String) {
        if let Some(host) = self.hosts.get(host) {
            host.send(Message::ForgetRehearsal(ForgetRehearsal { key }));
        }
    }
}
