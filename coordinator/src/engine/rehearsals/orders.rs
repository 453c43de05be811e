//! From what is wanted to orders: each rehearsal that is to be made, the host that makes it, the message to that host.
//! Which ranks and which hosts is decided by `schedule::rehearse`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proto::v1::Rehearse;
use proto::v1::coordinator_message::Message;
use vram::{Mode, Settings};

use super::content::{key, mode_word, settings_of};
use super::wanted::AllWanted;
use super::{Asked, SETTINGS_MAX, Subject, TIME_LIMIT, WORKSPACE, Waits};
use crate::engine::{Host, State, Work};
use crate::schedule::NeedId;
use crate::schedule::rehearse::{self, Wish, Worker};

/// One of the rehearsals that are to be asked for.
#[derive(Clone)]
pub(super) struct Order {
    pub subject: Subject,
    pub rank: u64,
    pub need: NeedId,
}

impl State {
    pub(super) fn orders(&self, wanted: &AllWanted, now: Instant) -> Vec<Order> {
        let stacks: BTreeSet<&str> = self.able(now).filter_map(|host| host.stack.can()).collect();
        let mut orders = Vec::new();
        for (subject, wanted) in wanted {
            let ranks = wanted.ranks.keys().copied().collect();
            let made = self.book.families.get(subject).into_iter();
            // Where all hosts have other versions by now, it is made again with those.
            let known = made
                .flat_map(|known| &known.made)
                .filter(|(_, record)| stacks.is_empty() || stacks.contains(record.stack.as_str()));
            let known = known.map(|(rank, _)| *rank).collect();
            for rank in rehearse::ranks(&ranks, &known) {
                orders.push(Order {
                    subject: subject.clone(),
                    rank,
                    need: wanted.ranks[&rank],
                });
            }
        }
        // In the order in which sweeps came: needs are numbered so.
        orders.sort_by_key(|order| order.need);
        orders
    }

    /// The subjects of which something is still to come, and from whom.
    pub(super) fn send_orders(
        &mut self,
        orders: &[Order],
        now: Instant,
        work: &mut Work,
    ) -> BTreeMap<Subject, Waits> {
        let mut open: BTreeMap<Subject, Waits> = BTreeMap::new();
        for asked in self.book.asked.values() {
            open.insert(asked.subject.clone(), Waits::Running(asked.host.clone()));
        }
        let mut new: Vec<&Order> = orders.iter().collect();
        new.retain(|order| !self.is_asked(order));
        new.retain(|order| match self.adopt(order, now, work) {
            Some(host) => {
                open.insert(order.subject.clone(), Waits::Running(host));
                false
            }
            None => true,
        });
        for (order, host, stack) in self.matched(&new, &mut open, now) {
            let by = (host.as_str(), stack.as_str());
            if self.order_one(&order, by, now, work) {
                open.insert(order.subject, Waits::Running(host));
            } else if open.get(&order.subject) == Some(&Waits::Queued) {
                // There is no asking for it: then there is nothing to wait for.
                open.remove(&order.subject);
            }
        }
        open
    }

    fn is_asked(&self, order: &Order) -> bool {
        let mut asked = self.book.asked.values();
        asked.any(|one| one.subject == order.subject && one.rank == order.rank)
    }

    /// Orders with the host and the stack that is to carry each out; what no host can make now waits in the queue.
    fn matched(
        &self,
        new: &[&Order],
        open: &mut BTreeMap<Subject, Waits>,
        now: Instant,
    ) -> Vec<(Order, String, String)> {
        let looking = self.looking(now);
        let able: Vec<&Host> = self.able(now).collect();
        let stacks: BTreeSet<&str> = able.iter().filter_map(|host| host.stack.can()).collect();
        let (mut wishes, mut wished) = (Vec::new(), Vec::new());
        for order in new {
            let (barred, for_good) = self.barred(&order.subject, order.rank, &able, now);
            let hopeless = able
                .iter()
                .all(|host| for_good.contains(host.record.name.as_str()));
            if !hopeless {
                open.entry(order.subject.clone()).or_insert(Waits::Queued);
                wishes.push(Wish {
                    stack: self.stack_of(&order.subject, &stacks),
                    barred,
                });
                wished.push(*order);
            } else if let Some(host) = &looking {
                let waits = Waits::Looking(host.clone());
                open.entry(order.subject.clone()).or_insert(waits);
            }
        }
        let workers: Vec<Worker<'_>> = able.iter().filter_map(|host| self.worker(host)).collect();
        let pairs = rehearse::assign(&wishes, &workers).into_iter();
        let chosen = pairs.map(|(wish, at)| {
            let worker = &workers[at];
            (
                wished[wish].clone(),
                worker.name.to_owned(),
                worker.stack.to_owned(),
            )
        });
        chosen.collect()
    }

    /// A host that makes it already, asked by the coordinator that was here before.
    fn adopt(&mut self, order: &Order, now: Instant, work: &mut Work) -> Option<String> {
        let (text, mode, _) = self.content(order)?;
        let kernels = order.subject.kernels;
        let mut all = self.book.strays.iter();
        let (host, stack) = all.find_map(|(host, keys)| {
            let stack = self.hosts.get(host)?.stack.can()?;
            let is_it = keys.contains(&key(&text, mode, kernels, stack));
            is_it.then(|| (host.clone(), stack.to_owned()))
        })?;
        self.order_one(order, (&host, &stack), now, work)
            .then_some(host)
    }

    /// What is to be rehearsed, as text and as settings; `None` where that cannot be said.
    fn content(&self, order: &Order) -> Option<(String, Mode, Settings)> {
        let workload = self.sizes.workload(order.need);
        let settings = settings_of(workload)?;
        let text = serde_json::to_string(&settings).ok()?;
        (text.len() <= SETTINGS_MAX).then_some((text, workload.mode, settings))
    }

    fn order_one(
        &mut self,
        order: &Order,
        (host, stack): (&str, &str),
        now: Instant,
        work: &mut Work,
    ) -> bool {
        let Some((text, mode, settings)) = self.content(order) else {
            return false;
        };
        let (rank, kernels) = (order.rank, order.subject.kernels);
        let key = key(&text, mode, kernels, stack);
        let asked = Asked {
            subject: order.subject.clone(),
            rank,
            host: host.to_owned(),
            stack: stack.to_owned(),
            mode,
            settings,
            since: now,
            heard: now,
        };
        let cards = kernels.as_str();
        tracing::info!(host, rank, cards, key, "a rehearsal is asked for");
        if let Some(strays) = self.book.strays.get_mut(host) {
            strays.remove(&key);
        }
        self.book.asked.insert(key.clone(), asked);
        work.then(move |state| state.send_rehearsal(&key));
        true
    }

    /// Again with each session of its host: one that has it already pays no heed.
    pub(super) fn send_rehearsal(&self, key: &str) {
        let Some(asked) = self.book.asked.get(key) else {
            return;
        };
        if let Some(host) = self.hosts.get(&asked.host) {
            host.send(Message::Rehearse(Rehearse {
                key: key.to_owned(),
                settings: serde_json::to_string(&asked.settings).unwrap_or_default(),
                mode: mode_word(asked.mode).to_owned(),
                workspace_bytes: WORKSPACE.0,
                time_limit_ms: u64::try_from(TIME_LIMIT.as_millis()).unwrap_or(u64::MAX),
                device: asked.subject.kernels.as_str().to_owned(),
            }));
        }
    }
}
