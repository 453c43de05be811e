//! What may become of a job whatever runs now: not needed, impossible on every candidate, or worth waiting for. Asks
//! only for empty devices, so that a full fleet never makes a job infeasible; says so only of a settled fleet.

use jobs::Outcome;
use jobs::spec::ProbeMode;
use vram::{Bytes, VerdictKind};

use super::compare::{Comparisons, Gate, Plan};
use super::filter::{acceptable, when_empty};
use super::fleet::{Device, Fleet};
use super::queue::Shape;
use super::reason::{WaitReason, about};
use super::site::{Site, SiteClass};

pub(super) struct Outlook {
    pub prospect: Prospect,
    /// Devices that could take it if they were empty of our own attempts: the fewer, the scarcer.
    pub breadth: u32,
    /// Classes of device that a comparison limits it to.
    pub families: Option<Vec<u32>>,
}

#[derive(Debug)]
pub(super) enum Prospect {
    /// It has a device to wait for.
    Open,
    Wait(WaitReason),
    Rule(Outcome, String),
}

impl Outlook {
    pub fn of(
        shape: &Shape<'_>,
        site: &Site,
        fleet: &Fleet<'_>,
        comparisons: &Comparisons,
        settled: bool,
    ) -> Self {
        let families = families(shape, site, fleet, comparisons);
        let look = Look {
            shape,
            site,
            fleet,
            families: families.as_deref(),
        };
        let breadth = look.breadth();
        let prospect = match &site.none {
            Some(reason) if settled || matches!(reason, WaitReason::NoHost) => {
                Prospect::Wait(reason.clone())
            }
            Some(_) => Prospect::Wait(WaitReason::FleetSettling),
            None => look.prospect(settled),
        };
        Self {
            prospect,
            breadth: breadth as u32,
            families,
        }
    }
}

/// Train jobs go where their comparison is pinned; a probe measures where it will train, as far as that is known and
/// it could run there. Where it will train may rest on what others hold now: that limits nothing to where nothing can be.
fn families(
    shape: &Shape<'_>,
    site: &Site,
    fleet: &Fleet<'_>,
    comparisons: &Comparisons,
) -> Option<Vec<u32>> {
    let plan = comparisons.plan(shape)?;
    if shape.probe.is_none() {
        return match comparisons.gate(shape) {
            Gate::Pinned(family) => Some(vec![family]),
            _ => None,
        };
    }
    let wanted = targets(shape, plan, site);
    let there = Look {
        shape,
        site,
        fleet,
        families: Some(&wanted),
    };
    let must = plan.pinned.is_some() && shape.asked.is_some();
    (must || there.is_open()).then_some(wanted)
}

fn targets(shape: &Shape<'_>, plan: &Plan, site: &Site) -> Vec<u32> {
    if let Some(family) = plan.pinned {
        return vec![family];
    }
    if !plan.all_fit.is_empty() {
        return plan.all_fit.clone();
    }
    // Where it is still open; on the others its size is known well enough.
    let open = |class: &&SiteClass| verdict(shape, class) == VerdictKind::Uncertain;
    let is_open = |family: &u32| {
        site.classes
            .iter()
            .filter(open)
            .any(|class| class.family == *family)
    };
    let uncertain: Vec<u32> = plan.hopeful.iter().copied().filter(is_open).collect();
    if uncertain.is_empty() {
        plan.hopeful.clone()
    } else {
        uncertain
    }
}

/// On the roomiest of the class, empty.
fn verdict(shape: &Shape<'_>, class: &SiteClass) -> VerdictKind {
    shape.size(class.class).judge(class.spills, class.usable)
}

/// One shape and its candidates.
struct Look<'l, 's> {
    shape: &'l Shape<'s>,
    site: &'l Site,
    fleet: &'l Fleet<'s>,
    families: Option<&'l [u32]>,
}

impl Look<'_, '_> {
    fn prospect(&self, settled: bool) -> Prospect {
        if self.shape.probe == Some(ProbeMode::None) {
            let reason = "the sweep file says that nothing is measured (mode = \"none\")";
            return Prospect::Rule(Outcome::Skipped, reason.to_owned());
        }
        if let Some(reason) = self.not_needed() {
            return Prospect::Rule(Outcome::Skipped, reason);
        }
        if self.classes().next().is_none() {
            return Prospect::Wait(self.wrong_class());
        }
        if self.is_open() {
            return Prospect::Open;
        }
        if let Some(rehearsal) = self.shape.rehearsal {
            return Prospect::Wait(WaitReason::rehearsing(rehearsal));
        }
        if !settled {
            return Prospect::Wait(WaitReason::FleetSettling);
        }
        if let Some(reason) = self.too_few() {
            return Prospect::Wait(reason);
        }
        Prospect::Rule(Outcome::Infeasible, self.why_never())
    }

    fn inside(&self, family: u32) -> bool {
        self.families.is_none_or(|some| some.contains(&family))
    }

    fn classes(&self) -> impl Iterator<Item = &SiteClass> {
        self.site
            .classes
            .iter()
            .filter(|class| self.inside(class.family))
    }

    /// Those that a job of several devices can have together stand together: one host, one class.
    fn candidates(&self) -> Vec<&Device<'_>> {
        let all = self
            .site
            .devices
            .iter()
            .map(|at| &self.fleet.devices[*at as usize]);
        let mut inside: Vec<_> = all.filter(|device| self.inside(device.family)).collect();
        inside.sort_by_key(|device| (device.on.name, device.class));
        inside
    }

    /// Most jobs take one device and have never failed on one: for these the classes answer.
    fn is_simple(&self) -> bool {
        self.shape.gpus == 1 && self.shape.avoid.is_empty()
    }

    fn is_open(&self) -> bool {
        if self.is_simple() {
            return self
                .classes()
                .any(|class| acceptable(self.shape, verdict(self.shape, class)));
        }
        let may_take = |device: &Device<'_>| {
            acceptable(self.shape, when_empty(self.shape, device)) && !self.shape.avoids(device)
        };
        self.most_together(may_take) >= self.shape.gpus
    }

    fn breadth(&self) -> usize {
        let least = |class: usize| {
            let size = self.shape.size(class);
            if self.shape.measures {
                size.least
            } else {
                size.most
            }
        };
        if self.is_simple() {
            return self
                .classes()
                .map(|class| class.with_room(least(class.class)))
                .sum();
        }
        let roomy = |device: &&&Device<'_>| {
            device.live && least(device.class) <= device.free && !self.shape.avoids(device)
        };
        self.candidates().iter().filter(roomy).count()
    }

    fn most_together(&self, counts: impl Fn(&Device<'_>) -> bool) -> usize {
        let candidates = self.candidates();
        let places = candidates.chunk_by(|one, other| together(one, other));
        let count = |place: &[&Device<'_>]| place.iter().filter(|device| counts(device)).count();
        places.map(count).max().unwrap_or(0)
    }

    fn wrong_class(&self) -> WaitReason {
        let family = self.families.and_then(|some| some.first());
        let name = family.and_then(|at| self.fleet.families.get(*at as usize));
        WaitReason::ComparisonElsewhere {
            class: name
                .copied()
                .unwrap_or("a class of device that is not here")
                .to_owned(),
        }
    }

    fn too_few(&self) -> Option<WaitReason> {
        let most = self.most_together(|_| true);
        let candidates = self.candidates();
        let best = candidates
            .chunk_by(|one, other| together(one, other))
            .find(|place| place.len() == most)?;
        (most < self.shape.gpus).then(|| WaitReason::TooFewDevices {
            host: best[0].on.name.to_owned(),
            wanted: self.shape.gpus as u32,
            has: most as u32,
        })
    }

    /// A rehearsing probe whose question is answered: what it is for fits a device that could take it now or soon.
    fn not_needed(&self) -> Option<String> {
        if self.shape.probe != Some(ProbeMode::Rehearse) {
            return None;
        }
        let most = |class: usize| {
            self.shape
                .telling(class)
                .map(|known| known.need + known.band)
        };
        let fits = |device: &Device<'_>| {
            let room = most(device.class).is_some_and(|most| most <= device.free);
            room && device.live && !self.shape.avoids(device)
        };
        let possible = self
            .classes()
            .any(|class| most(class.class).is_some_and(|most| class.with_room(most) > 0));
        if !possible || self.most_together(fits) < self.shape.gpus {
            return None;
        }
        let candidates = self.candidates();
        let device = candidates.iter().find(|device| fits(device))?;
        let known = self.shape.telling(device.class)?;
        Some(format!(
            "not needed: fits {} by {}: need {} of {:.0} MiB",
            device.title(),
            known.source.as_str(),
            about(known.need, known.band),
            device.free.mib()
        ))
    }

    fn why_never(&self) -> String {
        let candidates = self.candidates();
        let avoided = candidates
            .iter()
            .filter(|device| self.shape.avoids(device))
            .count();
        let mut others: Vec<_> = candidates
            .iter()
            .filter(|device| !self.shape.avoids(device))
            .collect();
        others.sort_by_key(|device| self.shortfall(device));
        let class = self.families.and_then(|some| some.first());
        let class = class.and_then(|at| self.fleet.families.get(*at as usize));
        let mut reason = class.map_or(String::new(), |name| {
            format!("its comparison trains on {name}: ")
        });
        reason += &match others.first() {
            None => format!("ran out of memory on {}", self.names()),
            Some(best) => self.why_not(best),
        };
        if avoided > 0 && !others.is_empty() {
            reason += &format!("; ran out of memory on {avoided} other");
        }
        reason
    }

    fn names(&self) -> String {
        let mut names: Vec<String> = self
            .candidates()
            .iter()
            .map(|device| device.title())
            .collect();
        names.dedup();
        names.join(", ")
    }

    /// What is open comes before what is too large; then by what is missing.
    fn shortfall(&self, device: &Device<'_>) -> (bool, Bytes) {
        let too_large = when_empty(self.shape, device) > VerdictKind::Uncertain;
        let need = self
            .shape
            .telling(device.class)
            .map_or(Bytes::ZERO, |known| known.need + known.band);
        (too_large, need.saturating_sub(device.usable))
    }

    fn why_not(&self, device: &Device<'_>) -> String {
        const REMEDY: &str = "add a [probe] stage, or say memory = \"...\" under [place]";
        let title = device.title();
        let Some(known) = self.shape.telling(device.class) else {
            return format!("nothing is known of its memory on {title}; {REMEDY}");
        };
        let (need, usable) = (about(known.need, known.band), device.usable.mib());
        let source = known.source.as_str();
        if when_empty(self.shape, device) == VerdictKind::Uncertain {
            return format!(
                "too close to call on {title}: needs {need} of {usable:.0} MiB ({source}); {REMEDY}"
            );
        }
        let spills = match when_empty(self.shape, device) {
            VerdictKind::Offloads => ", and would run partly on the CPU, several times slower",
            VerdictKind::Spills => ", which would spill to system memory",
            _ => "",
        };
        format!(
            "too large for every known device: the best, {title}, has {usable:.0} MiB of {need} MiB ({source}){spills}"
        )
    }
}

fn together(one: &Device<'_>, other: &Device<'_>) -> bool {
    (one.host, one.class) == (other.host, other.class)
}
