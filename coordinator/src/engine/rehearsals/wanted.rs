//! What jobs that could start now want to know of their memory, and on which cards. Asks nobody: a rank that something
//! measured covers on all cards of a group is not wanted for that group.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Kind;
use jobs::spec::{DeviceKind, ProbeMode};
use proto::convert;
use vram::Kernels;

use super::Subject;
use crate::engine::{OpenSweep, State};
use crate::schedule::{ClassId, NeedId};

/// What jobs that are ready want to know of one subject.
#[derive(Default)]
pub(super) struct Wanted {
    /// Every need of a ready job, measured or not.
    pub needs: BTreeSet<NeedId>,
    /// Ranks that nothing measured covers, with a need of each.
    pub ranks: BTreeMap<u64, NeedId>,
}

pub(super) type AllWanted = BTreeMap<Subject, Wanted>;

/// Classes of the cards that a trial may go to, by what a rehearsal for them has in common.
type Cards = BTreeMap<Kernels, BTreeSet<ClassId>>;

impl State {
    pub(super) fn wanted(&self) -> AllWanted {
        let mut wanted = AllWanted::new();
        for open in self.open.values().filter(|open| rehearses(open)) {
            // Trials are bound to hosts in few ways.
            let mut known: BTreeMap<(Option<&str>, u32), Cards> = BTreeMap::new();
            for (trial, kind) in &open.ready {
                let bound = &open.bounds[*trial as usize - 1];
                let place = (bound.host.as_deref(), bound.require);
                let cards = known
                    .entry(place)
                    .or_insert_with(|| self.cards(place.0, &open.requires[bound.require as usize]));
                for need in needs(open, *trial, *kind) {
                    self.want(need, cards, &mut wanted);
                }
            }
        }
        wanted
    }

    fn want(&self, need: NeedId, cards: &Cards, wanted: &mut AllWanted) {
        let Some((family, rank)) = self.sizes.family(need) else {
            return;
        };
        for (kernels, classes) in cards {
            let subject = Subject {
                family: family.clone(),
                kernels: *kernels,
            };
            let known = wanted.entry(subject).or_default();
            let new = known.needs.insert(need);
            if new && !self.sizes.is_measured(need, *kernels, classes) {
                known.ranks.entry(rank).or_insert(need);
            }
        }
    }

    fn cards(&self, host: Option<&str>, labels: &[String]) -> Cards {
        let may = |name: &str| host.is_none_or(|pinned| pinned == name);
        let mut hosts: Vec<_> = self.hosts.values().collect();
        hosts.retain(|host| {
            may(&host.record.name) && labels.iter().all(|label| host.labels.contains(label))
        });
        let mut cards = Cards::new();
        for host in hosts {
            for (device, class) in host.record.devices.iter().zip(&host.classes) {
                if convert::device_kind(device) == DeviceKind::Gpu {
                    let all = cards.entry(Kernels::of(class)).or_default();
                    all.extend(self.sizes.class_id(class));
                }
            }
        }
        cards
    }
}

/// Sweeps of a known model on a GPU: whose probes are rehearsals first, or that have no probe. `mode = "card"` asks for
/// the card and `mode = "none"` for nothing.
fn rehearses(open: &OpenSweep) -> bool {
    let spec = &open.life.plan.spec;
    let probe = spec.stage(Kind::Probe).map(|stage| stage.probe);
    matches!(probe, None | Some(ProbeMode::Rehearse | ProbeMode::Both))
        && spec.model.is_some()
        && spec.device() == Some(DeviceKind::Gpu)
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
