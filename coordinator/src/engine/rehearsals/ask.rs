//! Asking hosts for rehearsals: once before each round, from the jobs that are ready. Sends orders and notes which jobs
//! wait for them; which ranks and which hosts is decided by `schedule::rehearse`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jobs::Kind;
use jobs::life::JobState;
use jobs::spec::{DeviceKind, ProbeMode};
use proto::convert;
use proto::v1::coordinator_message::Message;
use proto::v1::{ForgetRehearsal, Rehearse};

use super::content::{key, mode_word, settings_of};
use super::{Asked, SETTINGS_MAX, Stack, TIME_LIMIT, WORKSPACE, Waits};
use crate::engine::{Host, OpenSweep, State, Work};
use crate::schedule::rehearse::{self, Wish, Worker};
use crate::schedule::{ClassId, NeedId};

/// What jobs that are ready want to know of one family.
#[derive(Default)]
pub(super) struct Wanted {
    /// Every need of a ready job, measured or not.
    needs: BTreeSet<NeedId>,
    /// Ranks that nothing measured covers, with a need of each.
    ranks: BTreeMap<u64, NeedId>,
}

/// One of the rehearsals that are to be asked for.
struct Order {
    family: Arc<str>,
    rank: u64,
    need: NeedId,
}

impl State {
    pub(in crate::engine) fn ask_for_rehearsals(&mut self, now: Instant, work: &mut Work) {
        for family in self.book.warmed() {
            self.sizes.count_streams(&family);
            work.dirty = true;
        }
        self.give_up_silent(now, work);
        let hosts = self.hosts.values();
        let any = hosts
            .into_iter()
            .any(|host| !matches!(host.stack, Stack::Cannot(_)));
        if !any && self.book.asked.is_empty() {
            self.book.waiting.clear();
            return;
        }
        let wanted = self.wanted();
        self.forget_unwanted(work);
        self.read_older(&wanted);
        let orders = self.orders(&wanted, now);
        let open = self.send_orders(&orders, now, work);
        self.book.waiting = self.waiting_for(&wanted, &open, now);
    }

    /// By family, of the jobs that could start now.
    fn wanted(&self) -> BTreeMap<Arc<str>, Wanted> {
        let classes = self.gpu_classes();
        let mut wanted: BTreeMap<Arc<str>, Wanted> = BTreeMap::new();
        if classes.is_empty() {
            return wanted;
        }
        for open in self.open.values().filter(|open| rehearses(open)) {
            for (trial, kind) in &open.ready {
                for need in needs(open, *trial, *kind) {
                    let Some((family, rank)) = self.sizes.family(need) else {
                        continue;
                    };
                    let known = wanted.entry(family.clone()).or_default();
                    let new = known.needs.insert(need);
                    if new && !self.sizes.is_measured(need, &classes) {
                        known.ranks.entry(rank).or_insert(need);
                    }
                }
            }
        }
        wanted
    }

    fn gpu_classes(&self) -> Vec<ClassId> {
        let mut classes = BTreeSet::new();
        for host in self.hosts.values() {
            for (device, class) in host.record.devices.iter().zip(&host.classes) {
                if convert::device_kind(device) == DeviceKind::Gpu {
                    classes.extend(self.sizes.class_id(class));
                }
            }
        }
        classes.into_iter().collect()
    }

    fn orders(&self, wanted: &BTreeMap<Arc<str>, Wanted>, now: Instant) -> Vec<Order> {
        let stacks: BTreeSet<&str> = self.able(now).filter_map(|host| host.stack.can()).collect();
        let mut orders = Vec::new();
        for (family, wanted) in wanted {
            let ranks = wanted.ranks.keys().copied().collect();
            let made = self.book.families.get(family).into_iter();
            // Where all hosts have other versions by now, it is made again with those.
            let known = made
                .flat_map(|known| &known.made)
                .filter(|(_, record)| stacks.is_empty() || stacks.contains(record.stack.as_str()));
            let known = known.map(|(rank, _)| *rank).collect();
            for rank in rehearse::ranks(&ranks, &known) {
                orders.push(Order {
                    family: family.clone(),
                    rank,
                    need: wanted.ranks[&rank],
                });
            }
        }
        // In the order in which sweeps came: needs are numbered so.
        orders.sort_by_key(|order| order.need);
        orders
    }

    /// The families of which something is still to come, and from whom.
    fn send_orders(
        &mut self,
        orders: &[Order],
        now: Instant,
        work: &mut Work,
    ) -> BTreeMap<Arc<str>, Waits> {
        let mut open: BTreeMap<Arc<str>, Waits> = BTreeMap::new();
        for asked in self.book.asked.values() {
            open.insert(asked.family.clone(), Waits::Running(asked.host.clone()));
        }
        let is_new = |order: &&Order| {
            let mut asked = self.book.asked.values();
            !asked.any(|one| one.family == order.family && one.rank == order.rank)
        };
        let new: Vec<&Order> = orders.iter().filter(is_new).collect();
        let looking = self.looking(now);
        let able: Vec<&Host> = self.able(now).collect();
        let stacks: BTreeSet<&str> = able.iter().filter_map(|host| host.stack.can()).collect();
        let mut wishes = Vec::new();
        let mut wished = Vec::new();
        for order in new {
            let (barred, for_good) = self.barred(&order.family, order.rank, &able, now);
            let hopeless = able
                .iter()
                .all(|host| for_good.contains(host.record.name.as_str()));
            if !hopeless {
                open.entry(order.family.clone()).or_insert(Waits::Queued);
                wishes.push(Wish {
                    stack: self.stack_of(&order.family, &stacks),
                    barred,
                });
                wished.push(order);
            } else if let Some(host) = &looking {
                let waits = Waits::Looking(host.clone());
                open.entry(order.family.clone()).or_insert(waits);
            }
        }
        let workers: Vec<Worker<'_>> = able.iter().filter_map(|host| self.worker(host)).collect();
        let pairs = rehearse::assign(&wishes, &workers);
        let chosen: Vec<(usize, String, String)> = pairs
            .into_iter()
            .map(|(wish, at)| {
                (
                    wish,
                    workers[at].name.to_owned(),
                    workers[at].stack.to_owned(),
                )
            })
            .collect();
        let wished: Vec<(Arc<str>, u64, NeedId)> = wished
            .into_iter()
            .map(|order| (order.family.clone(), order.rank, order.need))
            .collect();
        for (wish, host, stack) in chosen {
            let (family, rank, need) = &wished[wish];
            if self.order_one(family, *rank, *need, (&host, &stack), now, work) {
                open.insert(family.clone(), Waits::Running(host));
            } else if open.get(family) == Some(&Waits::Queued) {
                // There is no asking for it: then there is nothing to wait for.
                open.remove(family);
            }
        }
        open
    }

    fn order_one(
        &mut self,
        family: &Arc<str>,
        rank: u64,
        need: NeedId,
        (host, stack): (&str, &str),
        now: Instant,
        work: &mut Work,
    ) -> bool {
        let workload = self.sizes.workload(need);
        let Some(settings) = settings_of(workload) else {
            return false;
        };
        let text = serde_json::to_string(&settings).unwrap_or_default();
        if text.len() > SETTINGS_MAX {
            return false;
        }
        let mode = workload.mode;
        let key = key(&text, mode, stack);
        let asked = Asked {
            family: family.clone(),
            rank,
            host: host.to_owned(),
            stack: stack.to_owned(),
            mode,
            settings,
            since: now,
            heard: now,
        };
        tracing::info!(host, rank, key, "a rehearsal is asked for");
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
            }));
        }
    }

    /// By need: jobs wait for what is to come, but not for ever.
    fn waiting_for(
        &mut self,
        wanted: &BTreeMap<Arc<str>, Wanted>,
        open: &BTreeMap<Arc<str>, Waits>,
        now: Instant,
    ) -> BTreeMap<NeedId, Waits> {
        let mut waiting = BTreeMap::new();
        for (family, wanted) in wanted {
            let warming = self.book.is_warming(family);
            let warming = warming.map(|host| Waits::Running(host.to_owned()));
            let Some(waits) = open.get(family).cloned().or(warming) else {
                continue;
            };
            let last_done = self.book.last_done;
            let entry = self.book.families.entry(family.clone()).or_default();
            let since = *entry.since.get_or_insert(now);
            // As long as rehearsals come in, those behind them are worth waiting for.
            let since = last_done.map_or(since, |done| done.max(since));
            if now.duration_since(since) < self.timing.rehearsal_wait {
                for need in &wanted.needs {
                    waiting.insert(*need, waits.clone());
                }
            }
        }
        for (family, known) in &mut self.book.families {
            if !open.contains_key(family) {
                known.since = None;
            }
        }
        waiting
    }

    /// Of no open trial any more, because its sweep was cancelled or has ended. What was placed meanwhile, because it
    /// fits anyhow, may still be placed again.
    fn forget_unwanted(&mut self, work: &mut Work) {
        let unwanted = self.book.asked.iter();
        let unwanted = unwanted.filter(|(_, asked)| !self.is_of_use(&asked.family));
        let keys: Vec<String> = unwanted.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.forget_rehearsal(&key, work);
        }
    }

    fn is_of_use(&self, family: &Arc<str>) -> bool {
        let open_job = |open: &OpenSweep, trial: u32, kind: Kind| {
            let need = open.need(trial, kind);
            let of_family = need.and_then(|need| self.sizes.family(need));
            let state = open.life.state(trial, kind);
            of_family.is_some_and(|(own, _)| own == family)
                && !matches!(state, None | Some(JobState::Settled(_)))
        };
        self.open.values().any(|open| {
            (1..=open.trials()).any(|trial| {
                open_job(open, trial, Kind::Train) || open_job(open, trial, Kind::Probe)
            })
        })
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
        work.then(move |state| {
            if let Some(host) = state.hosts.get(&host) {
                host.send(Message::ForgetRehearsal(ForgetRehearsal { key }));
            }
        });
    }
}

/// Sweeps whose probes are rehearsals first, on a GPU.
fn rehearses(open: &OpenSweep) -> bool {
    let spec = &open.life.plan.spec;
    let probe = spec.stage(Kind::Probe).map(|stage| stage.probe);
    matches!(probe, Some(ProbeMode::Rehearse | ProbeMode::Both))
        && spec.model.is_some()
        && spec.place.device != Some(DeviceKind::Cpu)
}

/// What a ready job would wait to know: the training's size, and the probe's own where it goes to a card.
fn needs(open: &OpenSweep, trial: u32, kind: Kind) -> Vec<NeedId> {
    if kind == Kind::Bake {
        return Vec::new();
    }
    let spec = &open.life.plan.spec;
    let main = open.need(trial, Kind::Train);
    let probe = open
        .need(trial, Kind::Probe)
        .filter(|_| kind == Kind::Probe);
    let on_card = spec
        .stage(Kind::Probe)
        .is_some_and(|stage| stage.probe == ProbeMode::Both);
    let probe = probe.filter(|_| on_card || main.is_none());
    main.into_iter().chain(probe).collect()
}
