//! The jobs that wait, in their order, and what they have in common: thousands of jobs ask the same of a device, so
//! what does not depend on the job alone is kept by shape and found once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jobs::Kind;
use jobs::spec::ProbeMode;

use super::compare::Comparisons;
use super::fleet::{Device, Fleet};
use super::outlook::Outlook;
use super::site::{Site, Wish};
use super::size::Size;
use super::{GroupId, JobKey, JobView, NeedId, Rehearsal, Sizing, Snapshot};

/// How many later sweeps may send a job ahead because it has fewer devices to choose from. A bound, so that what can
/// go anywhere is not passed for ever.
const OVERTAKE: u64 = 4;

/// What jobs of one shape ask of a device.
pub(super) struct Shape<'s> {
    pub site: usize,
    pub kind: Kind,
    pub probe: Option<ProbeMode>,
    /// May be placed while its size is uncertain: alone on the device.
    pub measures: bool,
    pub gpus: usize,
    pub prefer: Option<&'s str>,
    pub avoid: &'s [(String, String)],
    pub group: Option<GroupId>,
    /// Not for a Python without a certain package.
    pub packaged: bool,
    /// What would tell its size is on its way.
    pub rehearsal: Option<Rehearsal<'s>>,
    pub need: NeedId,
    /// Its own sizes, by class.
    pub own: &'s [Option<Sizing>],
    /// Of a probe that is needed only where it tells something: the sizes it is asked about.
    pub asked: Option<&'s [Option<Sizing>]>,
}

fn at(row: &[Option<Sizing>], class: usize) -> Option<&Sizing> {
    row.get(class).and_then(Option::as_ref)
}

impl<'s> Shape<'s> {
    fn of(job: &JobView<'s>, site: usize, estimates: &'s [Vec<Option<Sizing>>]) -> Self {
        let row = |need: NeedId| estimates.get(need.index()).map_or(&[][..], Vec::as_slice);
        let rehearses = job.probe == Some(ProbeMode::Rehearse);
        Self {
            site,
            kind: job.key.kind,
            probe: job.probe,
            measures: (job.probe.is_some() || job.whole_device) && job.rehearsal.is_none(),
            gpus: job.gpus.max(1) as usize,
            prefer: job.prefer,
            avoid: job.avoid,
            group: job.group,
            packaged: job
                .require
                .iter()
                .any(|label| label.starts_with("package:")),
            rehearsal: job.rehearsal,
            need: job.need,
            own: row(job.need),
            asked: job.next_need.filter(|_| rehearses).map(row),
        }
    }

    pub fn size(&self, class: usize) -> Size {
        let own = Size::of(at(self.own, class));
        match self.asked {
            None => own,
            Some(asked) => own.either(Size::of(at(asked, class))),
        }
    }

    /// What it is itself expected to use.
    pub fn sizing(&self, class: usize) -> Option<&'s Sizing> {
        at(self.own, class)
    }

    /// The figures that decide, for people.
    pub fn telling(&self, class: usize) -> Option<&'s Sizing> {
        at(self.asked.unwrap_or(self.own), class)
    }

    pub fn avoids(&self, device: &Device<'_>) -> bool {
        let here = |(host, id): &(String, String)| host == device.on.name && id == device.view.id;
        self.avoid.iter().any(here)
    }
}

pub(super) struct Entry {
    pub key: JobKey,
    pub shape: usize,
    pub after_ms: u64,
    /// Jobs of one bucket compete by how much choice they have; an earlier bucket always goes first.
    pub bucket: usize,
}

pub(super) struct Queue<'s> {
    pub sites: Vec<Site>,
    pub shapes: Vec<Shape<'s>>,
    pub outlooks: Vec<Outlook>,
    pub comparisons: Comparisons,
    /// In the order in which they are decided.
    pub entries: Vec<Entry>,
}

/// Everything of a job's view that may differ between shapes.
type ShapeKey<'s> = (
    (usize, NeedId, Option<NeedId>, Option<u8>, bool),
    (
        u32,
        Option<&'s str>,
        &'s [(String, String)],
        Option<GroupId>,
        Kind,
        Option<Rehearsal<'s>>,
    ),
);

fn shape_key<'s>(job: &JobView<'s>, site: usize) -> ShapeKey<'s> {
    let probe = job.probe.map(|mode| mode as u8);
    (
        (site, job.need, job.next_need, probe, job.whole_device),
        (
            job.gpus,
            job.prefer,
            job.avoid,
            job.group,
            job.key.kind,
            job.rehearsal,
        ),
    )
}

impl<'s> Queue<'s> {
    pub fn of(snapshot: &'s Snapshot<'s>, fleet: &Fleet<'s>) -> Self {
        let mut wishes: BTreeMap<Wish<'s>, usize> = BTreeMap::new();
        // By need, because most jobs that differ differ in that.
        let mut known: Vec<BTreeMap<ShapeKey<'s>, usize>> =
            vec![BTreeMap::new(); snapshot.estimates.len() + 1];
        let mut sites = Vec::new();
        let mut shapes = Vec::new();
        let mut of_job = Vec::with_capacity(snapshot.jobs.len());
        for job in &snapshot.jobs {
            let wish = Wish::of(job);
            let site = *wishes.entry(wish).or_insert_with(|| {
                let classes = sites.iter().map(|site: &Site| site.classes.len()).sum();
                sites.push(wish.site(fleet, classes));
                sites.len() - 1
            });
            let of_need = &mut known[job.need.index().min(snapshot.estimates.len())];
            of_job.push(*of_need.entry(shape_key(job, site)).or_insert_with(|| {
                shapes.push(Shape::of(job, site, snapshot.estimates));
                shapes.len() - 1
            }));
        }
        let comparisons = Comparisons::of(snapshot, fleet, &shapes, &sites);
        let outlook = |shape: &Shape<'s>| {
            let site = &sites[shape.site];
            Outlook::of(shape, site, fleet, &comparisons, snapshot.fleet_settled)
        };
        let outlooks: Vec<Outlook> = shapes.iter().map(outlook).collect();
        let entries = entries(&snapshot.jobs, &of_job, &outlooks);
        Self {
            sites,
            shapes,
            outlooks,
            comparisons,
            entries,
        }
    }

    pub fn devices(&self, shape: &Shape<'_>) -> &[u32] {
        &self.sites[shape.site].devices
    }
}

/// Priority first. Within it, and within a few sweeps, the job with the least choice goes first, so that scarce
/// devices are not given to what could go elsewhere. Among equals work that is under way is finished before more is
/// begun (bake, train, probe), then the order of submission.
fn entries(jobs: &[JobView<'_>], of_job: &[usize], outlooks: &[Outlook]) -> Vec<Entry> {
    let mut oldest: BTreeMap<Reverse<i32>, u64> = BTreeMap::new();
    for job in jobs {
        let first = oldest.entry(Reverse(job.priority)).or_insert(job.key.sweep);
        *first = job.key.sweep.min(*first);
    }
    let window = |job: &JobView<'_>| {
        let priority = Reverse(job.priority);
        (priority, (job.key.sweep - oldest[&priority]) / OVERTAKE)
    };
    let windows: BTreeSet<_> = jobs.iter().map(window).collect();
    let numbers: BTreeMap<_, usize> = windows.into_iter().zip(0..).collect();
    let mut entries: Vec<Entry> = jobs
        .iter()
        .zip(of_job)
        .map(|(job, &shape)| Entry {
            key: job.key,
            shape,
            after_ms: job.after_ms,
            bucket: numbers[&window(job)],
        })
        .collect();
    entries.sort_by_cached_key(|entry| {
        let key = entry.key;
        let breadth = outlooks[entry.shape].breadth;
        (
            entry.bucket,
            breadth,
            Reverse(key.kind),
            key.sweep,
            key.trial,
        )
    });
    entries
}
