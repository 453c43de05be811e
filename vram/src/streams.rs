//! Allocation streams that are known, recorded on a card or rehearsed without one: found by what they were made of,
//! scaled to ranks that none was made at, and replayed for the least memory that lets them through.
//! Refuses streams without a step, and ones that no second rank makes scalable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::recipe::Quant;
use crate::replay::{ReplaySettings, run};
use crate::stream::{Event, Stream, scale};
use crate::{Bytes, CardKind, Kernels, MIB, Workload};

/// Who made a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// By the framework's own history on a real card.
    Recorded,
    /// From the same program's code under fake tensors.
    Rehearsed,
    /// From the shapes alone (`step`): every block is there, but not each in the order of the program's code.
    Shapes,
}

/// Half-width of the least memory, as a share: half a per cent for a real stream, 0.8 % for a rehearsal (the rows with a
/// limit in docs/rehearsal.md: none farther off than 0.5 %), 4 % for the shapes (data/h200-2.jsonl: reserved up to 3.9 %
/// too low). Where one block is so large that the layout decides by chance whether it finds its place, and the order of
/// blocks is not the program's own, it is wider.
pub(crate) fn band(origin: Origin, stream: &Stream, limit: f64) -> f64 {
    match origin {
        Origin::Recorded => 0.005,
        Origin::Rehearsed => 0.008,
        Origin::Shapes if largest_in_step(stream) > ONE_LARGE * limit => 0.08,
        Origin::Shapes => 0.04,
    }
}

const ONE_LARGE: f64 = 0.1;

/// The largest block asked for during the step, in MiB; the weights' own blocks come before the limit.
fn largest_in_step(stream: &Stream) -> f64 {
    let sizes = stream.events[step(stream)..]
        .iter()
        .map(|event| match event {
            Event::Alloc { bytes, .. } => *bytes,
            _ => 0,
        });
    sizes.max().unwrap_or(0) as f64 / MIB as f64
}

fn step(stream: &Stream) -> usize {
    let mark = |event: &Event| *event == Event::Mark(1);
    stream.events.iter().position(mark).unwrap_or(0)
}

/// LLM.int8() keeps the columns with outliers of each input besides: how many is known to the weights only, and random
/// ones (data/h200-2.jsonl) had up to a quarter of the peak in them.
pub(crate) const BAND_INT8: f64 = 0.30;

/// What a stream needs on cards of one workspace size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Need {
    pub allocated: Bytes,
    /// The least that may be reserved for it to run to its end.
    pub least: Bytes,
    pub band: f64,
    pub origin: Origin,
    /// Scaled from two others.
    pub scaled: bool,
}

/// How a stream was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub origin: Origin,
    /// The card that it was made on, or rehearsed for.
    pub card: CardKind,
    /// The versions that made it: only streams of the same ones are scaled together.
    pub by: String,
    /// By versions or along a path that was never compared with a card: the band is wider.
    pub doubtful: bool,
}

#[derive(Clone, Debug)]
struct Known {
    /// Of the card it was made on: 32 MiB on Hopper, say.
    workspace: u64,
    stream: Arc<Stream>,
    doubtful: bool,
}

/// Streams that scale: of one family on one group of cards, all made the same way.
#[derive(Clone, Debug)]
struct Set {
    origin: Origin,
    by: String,
    /// By rank.
    ranks: BTreeMap<u64, Known>,
}

/// The stream of one rank of a family.
pub(crate) struct Found {
    pub stream: Stream,
    pub origin: Origin,
    /// From two others.
    pub scaled: bool,
    pub doubtful: bool,
}

/// What a doubt makes of the band.
pub(crate) const DOUBT: f64 = 2.0;

type NeedKey = (String, u64, CardKind, bool);

/// All that is known, by everything but the rank and by the cards' kernels.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The best first: recorded before rehearsed, and of those the last begun.
    families: BTreeMap<(String, Kernels), Vec<Set>>,
    /// Answers given before, by family, rank, card and allocator: the same stream needs the same.
    needs: Mutex<BTreeMap<NeedKey, Option<Need>>>,
}

impl Clone for Streams {
    fn clone(&self) -> Self {
        let needs = self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            families: self.families.clone(),
            needs: Mutex::new(needs.clone()),
        }
    }
}

impl Streams {
    /// The newest of one origin, maker and rank stays. Returns whether it was taken.
    pub(crate) fn learn(&mut self, workload: &Workload, made: Made, stream: Arc<Stream>) -> bool {
        let Some((family, rank)) = family(workload) else {
            return false;
        };
        if !stream.events.contains(&Event::Mark(1)) {
            return false;
        }
        self.forget_needs(&family, made.card.kernels);
        let sets = self
            .families
            .entry((family, made.card.kernels))
            .or_default();
        let is_own = |set: &Set| set.origin == made.origin && set.by == made.by;
        let at = sets.iter().position(is_own).unwrap_or_else(|| {
            let at = sets.partition_point(|set| set.origin < made.origin);
            let set = Set {
                origin: made.origin,
                by: made.by,
                ranks: BTreeMap::new(),
            };
            sets.insert(at, set);
            at
        });
        let known = Known {
            workspace: made.card.workspace.0,
            stream,
            doubtful: made.doubtful,
        };
        sets[at].ranks.insert(rank, known);
        true
    }

    pub(crate) fn forget(&mut self, workload: &Workload, made: &Made) {
        let Some((family, rank)) = family(workload) else {
            return;
        };
        self.forget_needs(&family, made.card.kernels);
        let key = (family, made.card.kernels);
        let Some(sets) = self.families.get_mut(&key) else {
            return;
        };
        for set in sets.iter_mut() {
            if set.origin == made.origin && set.by == made.by {
                set.ranks.remove(&rank);
            }
        }
        sets.retain(|set| !set.ranks.is_empty());
        if sets.is_empty() {
            self.families.remove(&key);
        }
    }

    fn forget_needs(&mut self, family: &str, kernels: Kernels) {
        let needs = self.needs.get_mut().unwrap_or_else(PoisonError::into_inner);
        needs.retain(|(of, _, card, _), _| of != family || card.kernels != kernels);
    }

    /// The stream of this workload on such cards: its own, or scaled from the two nearest ranks.
    pub(crate) fn find(&self, workload: &Workload, card: CardKind) -> Option<Found> {
        let (family, rank) = family(workload)?;
        let sets = self.families.get(&(family, card.kernels))?;
        let to = card.workspace.0;
        if let Some((set, known)) = own(sets, rank) {
            return Some(Found {
                stream: with_workspace(&known.stream, known.workspace, to),
                origin: set.origin,
                scaled: false,
                doubtful: known.doubtful,
            });
        }
        sets.iter().find_map(|set| {
            let [(rank_a, a), (rank_b, b)] = nearest(&set.ranks, rank)?;
            // Each on its own card: a workspace is put in place before, or it would scale with the rank.
            let stream = |one: &Known| with_workspace(&one.stream, one.workspace, to);
            let scaled = scale((&stream(a), rank_a), (&stream(b), rank_b), rank).ok()?;
            Some(Found {
                stream: scaled,
                origin: set.origin,
                scaled: true,
                doubtful: a.doubtful || b.doubtful,
            })
        })
    }

    /// Who made the stream that this workload would be replayed from, without making it.
    pub(crate) fn origin(&self, workload: &Workload, kernels: Kernels) -> Option<Origin> {
        let (family, rank) = family(workload)?;
        let sets = self.families.get(&(family, kernels))?;
        let scaled = || sets.iter().find(|set| set.ranks.len() >= 2);
        let set = own(sets, rank).map(|(set, _)| set).or_else(scaled)?;
        Some(set.origin)
    }

    pub(crate) fn need(
        &self,
        workload: &Workload,
        card: CardKind,
        expandable: bool,
    ) -> Option<Need> {
        if self.families.is_empty() {
            return None;
        }
        let (of, rank) = family(workload)?;
        let recipe = workload.recipe.as_ref();
        let outliers = recipe.is_some_and(|recipe| recipe.quant == Quant::Int8);
        let key = (of, rank, card, expandable);
        let known = || self.needs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(need) = known().get(&key) {
            return *need;
        }
        let need = self.find(workload, card).map(|found| {
            let (allocated, least) = least(&found.stream, expandable);
            let band = band(found.origin, &found.stream, least.mib());
            Need {
                allocated,
                least,
                band: if outliers && found.origin != Origin::Recorded {
                    BAND_INT8
                } else if found.doubtful {
                    band * DOUBT
                } else {
                    band
                },
                origin: found.origin,
                scaled: found.scaled,
            }
        });
        known().insert(key, need);
        need
    }
}

fn own(sets: &[Set], rank: u64) -> Option<(&Set, &Known)> {
    sets.iter()
        .find_map(|set| Some((set, set.ranks.get(&rank)?)))
}

fn nearest(ranks: &BTreeMap<u64, Known>, rank: u64) -> Option<[(u64, &Known); 2]> {
    let mut nearest: Vec<(u64, &Known)> = ranks.iter().map(|(at, known)| (*at, known)).collect();
    nearest.sort_by_key(|(one, _)| one.abs_diff(rank));
    nearest.first_chunk::<2>().copied()
}

/// Everything but the rank, and the rank.
pub(crate) fn family(workload: &Workload) -> Option<(String, u64)> {
    let recipe = workload.recipe.as_ref()?;
    let mut any_rank = workload.settings.clone();
    any_rank.insert("rank".to_owned(), 1.into());
    let family = Workload::new(workload.mode, &any_rank, None).ok()?;
    Some((family.key, recipe.rank))
}

/// Steps of the search for the least memory: what lies between allocated and reserved, halved so often, is far below
/// the band.
const HALVINGS: usize = 4;

/// Peak allocated, and the least limit under which the replay runs to its end (found by halving between what is
/// allocated and what a roomy card reserves; near the least it is not quite monotonic, which the band covers).
pub(crate) fn least(stream: &Stream, expandable_segments: bool) -> (Bytes, Bytes) {
    let under = |limit: Option<u64>| {
        let settings = ReplaySettings {
            limit: limit.map(Bytes),
            expandable_segments,
            alive_at_peak: false,
        };
        run(stream, settings)
    };
    let roomy = under(None);
    let (mut low, mut high) = (roomy.allocated, roomy.reserved.max(roomy.allocated));
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2;
        if under(Some(middle)).wanted.is_none() {
            high = middle;
        } else {
            low = middle;
        }
    }
    (Bytes(roomy.allocated), Bytes(high))
}

/// The stream as it would be on a card whose BLAS workspaces have another size. A workspace is a block of just that
/// size which is never freed.
fn with_workspace(stream: &Stream, from: u64, to: u64) -> Stream {
    let mut here = stream.clone();
    if from == to || from == 0 {
        return here;
    }
    let mut freed = vec![false; stream.allocations()];
    for event in &stream.events {
        if let Event::Free { alloc } = event {
            freed[*alloc as usize] = true;
        }
    }
    let allocs = here.events.iter_mut().filter_map(|event| match event {
        Event::Alloc { bytes, .. } => Some(bytes),
        _ => None,
    });
    for (bytes, freed) in allocs.zip(freed) {
        if *bytes == from && !freed {
            *bytes = to;
        }
    }
    here
}

#[cfg(test)]
mod tests;
