//! Comparisons: on which class of device all arms can train. A class is a choice only if every arm that may still run
//! fits on it; while that is open, the arms are measured first. Never splits a comparison.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Kind;
use vram::{Bytes, VerdictKind};

use super::fleet::Fleet;
use super::queue::Shape;
use super::site::{Site, SiteClass};
use super::size::Size;
use super::{GroupId, NeedId, Snapshot};

/// What is known of one comparison, for jobs with one set of candidates.
#[derive(Clone, Default, Debug)]
pub(super) struct Plan {
    pub pinned: Option<u32>,
    /// Classes on which every arm fits.
    pub all_fit: Vec<u32>,
    /// Classes on which no arm is too large.
    pub hopeful: Vec<u32>,
    /// Classes on which the most arms fit, if any does.
    pub most_fit: Vec<u32>,
    /// Arms that may still run.
    pub unsettled: u32,
    /// Of these, those whose size is open somewhere and whose measurement is still to come.
    pub unmeasured: u32,
}

/// What the class rule says of a train job.
pub(super) enum Gate<'p> {
    /// No comparison: any class.
    Open,
    Pinned(u32),
    /// One of these is chosen with the first placement.
    Choose(&'p [u32]),
    Wait { unsettled: u32, uncertain: u32 },
}

pub(super) struct Comparisons {
    plans: BTreeMap<(GroupId, usize), Plan>,
}

impl Comparisons {
    pub fn of(
        snapshot: &Snapshot<'_>,
        fleet: &Fleet<'_>,
        shapes: &[Shape<'_>],
        sites: &[Site],
    ) -> Self {
        let mut measured: BTreeSet<(GroupId, NeedId)> = BTreeSet::new();
        for shape in shapes.iter().filter(|shape| shape.kind == Kind::Train) {
            measured.extend(shape.group.map(|group| (group, shape.need)));
        }
        let mut plans = BTreeMap::new();
        for shape in shapes.iter().filter(|shape| shape.kind != Kind::Bake) {
            let Some(group) = shape.group else { continue };
            plans.entry((group, shape.site)).or_insert_with(|| {
                let is_measured = |need| measured.contains(&(group, need));
                plan(snapshot, fleet, group, &sites[shape.site], is_measured)
            });
        }
        Self { plans }
    }

    pub fn plan(&self, shape: &Shape<'_>) -> Option<&Plan> {
        let group = shape.group?;
        self.plans.get(&(group, shape.site))
    }

    pub fn gate(&self, shape: &Shape<'_>) -> Gate<'_> {
        let plan = self.plan(shape).filter(|_| shape.kind == Kind::Train);
        let Some(plan) = plan else { return Gate::Open };
        if let Some(family) = plan.pinned {
            Gate::Pinned(family)
        } else if !plan.all_fit.is_empty() {
            Gate::Choose(&plan.all_fit)
        } else if plan.unmeasured > 0 {
            Gate::Wait {
                unsettled: plan.unsettled,
                uncertain: plan.unmeasured,
            }
        } else {
            Gate::Choose(&plan.most_fit)
        }
    }
}

fn plan(
    snapshot: &Snapshot<'_>,
    fleet: &Fleet<'_>,
    group: GroupId,
    site: &Site,
    is_measured: impl Fn(NeedId) -> bool,
) -> Plan {
    let Some(view) = snapshot.groups.get(group.index()) else {
        return Plan::default();
    };
    let arms: Vec<NeedId> = view.arms.iter().filter(|arm| !arm.settled).map(|arm| arm.need).collect();
    let tables = Tables::of(snapshot, &site.classes, &arms);
    let unmeasured = |(at, arm): &(usize, &NeedId)| !is_measured(**arm) && tables.open_somewhere(*at);
    Plan {
        // A class that is not here is none of the candidates: its jobs wait for it (see `Outlook`).
        pinned: view.pinned.map(|name| fleet.family(name).unwrap_or(u32::MAX)),
        all_fit: tables.all_fit(),
        hopeful: tables.hopeful(),
        most_fit: tables.most_fit(),
        unsettled: arms.len() as u32,
        unmeasured: arms.iter().enumerate().filter(unmeasured).count() as u32,
    }
}

/// The best verdict of each arm on each class: a row for each class name, a column for each arm.
struct Tables {
    empty: Vec<(u32, Vec<VerdictKind>)>,
    /// With what others hold now.
    held: Vec<(u32, Vec<VerdictKind>)>,
}

impl Tables {
    fn of(snapshot: &Snapshot<'_>, classes: &[SiteClass], arms: &[NeedId]) -> Self {
        let table = |room: fn(&SiteClass) -> Bytes| {
            let mut rows: Vec<(u32, Vec<VerdictKind>)> = Vec::new();
            // Classes are sorted by their name's number.
            for class in classes {
                if rows.last().is_none_or(|(family, _)| *family != class.family) {
                    rows.push((class.family, vec![VerdictKind::Spills; arms.len()]));
                }
                let best = rows.last_mut().map(|(_, best)| best).into_iter().flatten();
                for (best, arm) in best.zip(arms) {
                    let row = snapshot.estimates.get(arm.index());
                    let sizing = row.and_then(|row| row.get(class.class)).and_then(Option::as_ref);
                    *best = Size::of(sizing).judge(class.spills, room(class)).min(*best);
                }
            }
            rows
        };
        Self {
            empty: table(|class| class.usable),
            held: table(|class| class.free),
        }
    }

    /// Where they fit beside what others hold now, if there is such a class; else where they fit when it is empty.
    fn all_fit(&self) -> Vec<u32> {
        let fits = |best: &[VerdictKind]| best.iter().all(|verdict| *verdict == VerdictKind::Fits);
        let now = families(&self.held, fits);
        if now.is_empty() { families(&self.empty, fits) } else { now }
    }

    fn hopeful(&self) -> Vec<u32> {
        families(&self.empty, |best| best.iter().all(|verdict| *verdict <= VerdictKind::Uncertain))
    }

    fn most_fit(&self) -> Vec<u32> {
        let count = |best: &[VerdictKind]| best.iter().filter(|verdict| **verdict == VerdictKind::Fits).count();
        let most = self.empty.iter().map(|(_, best)| count(best)).max().unwrap_or(0);
        families(&self.empty, |best| most > 0 && count(best) == most)
    }

    fn open_somewhere(&self, arm: usize) -> bool {
        self.empty.iter().any(|(_, best)| best[arm] == VerdictKind::Uncertain)
    }
}

fn families(rows: &[(u32, Vec<VerdictKind>)], wanted: impl Fn(&[VerdictKind]) -> bool) -> Vec<u32> {
    rows.iter().filter(|(_, best)| wanted(best)).map(|(family, _)| *family).collect()
}
