//! Comparisons: on which class of device all arms can train. A class is a choice only if every arm that may still run
//! fits on it; while that is open, the arms are measured first. Never splits a comparison.

use std::collections::BTreeSet;

use jobs::Kind;
use vram::VerdictKind;

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

/// What the class rule says of a train or bake job.
pub(super) enum Gate<'p> {
    /// No comparison: any class.
    Open,
    Pinned(u32),
    /// One of these is chosen with the first placement.
    Choose(&'p [u32]),
    Wait {
        unsettled: u32,
        uncertain: u32,
    },
}

pub(super) struct Comparisons {
    /// By group: the plan of each site that its jobs ask for.
    plans: Vec<Vec<(usize, Plan)>>,
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
        let mut plans: Vec<Vec<(usize, Plan)>> = vec![Vec::new(); snapshot.groups.len()];
        for shape in shapes {
            let Some(group) = shape.group else { continue };
            let Some(known) = plans.get_mut(group.index()) else {
                continue;
            };
            if known.iter().all(|(site, _)| *site != shape.site) {
                let is_measured = |need| measured.contains(&(group, need));
                let plan = plan(snapshot, fleet, group, &sites[shape.site], is_measured);
                known.push((shape.site, plan));
            }
        }
        Self { plans }
    }

    pub fn plan(&self, shape: &Shape<'_>) -> Option<&Plan> {
        let group = shape.group?;
        let plans = self.plans.get(group.index())?;
        plans
            .iter()
            .find(|(site, _)| *site == shape.site)
            .map(|(_, plan)| plan)
    }

    pub fn gate(&self, shape: &Shape<'_>) -> Gate<'_> {
        let plan = match shape.kind {
            Kind::Probe => None,
            Kind::Train => self.plan(shape),
            // What was trained on one class is evaluated on it: scores are what a comparison compares.
            Kind::Bake => self.plan(shape).filter(|plan| plan.pinned.is_some()),
        };
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
    let arms: Vec<NeedId> = view
        .arms
        .iter()
        .filter(|arm| !arm.settled)
        .map(|arm| arm.need)
        .collect();
    let tables = Tables::of(snapshot, &site.classes, &arms);
    let unmeasured =
        |(at, arm): &(usize, &NeedId)| !is_measured(**arm) && tables.open_somewhere(*at);
    Plan {
        // A class that is not here is none of the candidates: its jobs wait for it (see `Outlook`).
        pinned: view
            .pinned
            .map(|name| fleet.family(name).unwrap_or(u32::MAX)),
        all_fit: tables.all_fit(),
        hopeful: tables.hopeful(),
        most_fit: tables.most_fit(),
        unsettled: arms.len() as u32,
        unmeasured: arms.iter().enumerate().filter(unmeasured).count() as u32,
    }
}

/// The best verdict of each arm on each class name: a row for each of `families`, a column for each arm.
struct Tables {
    families: Vec<u32>,
    arms: usize,
    empty: Vec<VerdictKind>,
    /// With what others hold now.
    held: Vec<VerdictKind>,
}

impl Tables {
    fn of(snapshot: &Snapshot<'_>, classes: &[SiteClass], arms: &[NeedId]) -> Self {
        // Classes are sorted by family.
        let mut families: Vec<u32> = classes.iter().map(|class| class.family).collect();
        families.dedup();
        let worst = vec![VerdictKind::Offloads; families.len() * arms.len()];
        let (mut empty, mut held) = (worst.clone(), worst);
        for (column, arm) in arms.iter().enumerate() {
            let sizings = snapshot
                .estimates
                .get(arm.index())
                .map_or(&[][..], Vec::as_slice);
            for class in classes {
                let row = families.partition_point(|family| *family < class.family);
                let at = row * arms.len() + column;
                let size = Size::of(sizings.get(class.class).and_then(Option::as_ref));
                empty[at] = size.judge(class.spills, class.usable).min(empty[at]);
                held[at] = size.judge(class.spills, class.free).min(held[at]);
            }
        }
        Self {
            families,
            arms: arms.len(),
            empty,
            held,
        }
    }

    fn families(&self, table: &[VerdictKind], wanted: impl Fn(&[VerdictKind]) -> bool) -> Vec<u32> {
        let row = |at: usize| &table[at * self.arms..(at + 1) * self.arms];
        let rows = self
            .families
            .iter()
            .enumerate()
            .filter(|(at, _)| wanted(row(*at)));
        rows.map(|(_, family)| *family).collect()
    }

    /// Where they fit beside what others hold now, if there is such a class; else where they fit when it is empty.
    fn all_fit(&self) -> Vec<u32> {
        let fits = |best: &[VerdictKind]| count(best) == self.arms;
        let now = self.families(&self.held, fits);
        if now.is_empty() {
            self.families(&self.empty, fits)
        } else {
            now
        }
    }

    fn hopeful(&self) -> Vec<u32> {
        self.families(&self.empty, |best| {
            best.iter()
                .all(|verdict| *verdict <= VerdictKind::Uncertain)
        })
    }

    fn most_fit(&self) -> Vec<u32> {
        let rows = self.empty.chunks(self.arms.max(1));
        let most = rows.map(count).max().unwrap_or(0);
        self.families(&self.empty, |best| most > 0 && count(best) == most)
    }

    fn open_somewhere(&self, arm: usize) -> bool {
        let column = self.empty.iter().skip(arm).step_by(self.arms.max(1));
        column
            .into_iter()
            .any(|verdict| *verdict == VerdictKind::Uncertain)
    }
}

/// How many of the arms fit.
fn count(best: &[VerdictKind]) -> usize {
    best.iter()
        .filter(|verdict| **verdict == VerdictKind::Fits)
        .count()
}
