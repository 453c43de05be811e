//! Why a workload needs what it needs: its stream replayed with all the room it likes, the largest blocks alive at the
//! peak by module and line of code; and replayed in the room there is, the block that finds no place. Follows the
//! stream that the estimate follows, recorded before rehearsed before the shapes alone; explains nothing without one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::explain::{Explanation, explain, stage_at};
use crate::label::{any_layer, note, split};
use crate::recipe::Recipe;
use crate::replay::{Living, ReplaySettings, living, name_of, rounded};
use crate::step::stream;
use crate::stream::{Event, Stream};
use crate::streams::Origin;
use crate::{Bytes, DeviceClass, DeviceLoad, Knowledge, MIB, Mode, Workload, estimate, planning};

/// Blocks that one line of code asked for, of all layers together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeakBlocks {
    /// `layers.*.mlp.gate_proj`; of a stream without modules, what its label says.
    pub module: String,
    /// `modeling_gemma3.py:115`; empty where the stream does not say.
    pub line: String,
    /// What else is known of them.
    pub note: Option<String>,
    pub mib: f64,
    /// Of all that is alive then, from 0 to 1.
    pub share: f64,
    pub blocks: u64,
}

/// One block that the step asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeakRequest {
    pub module: String,
    pub line: String,
    pub note: Option<String>,
    pub mib: f64,
    pub stage: String,
}

/// The block that found no place, and how full the memory was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeakFailure {
    pub wanted: PeakRequest,
    pub allocated_mib: f64,
    pub reserved_mib: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Who made the stream.
    pub stream: Origin,
    /// From those of two other ranks.
    pub scaled: bool,
    pub allocated_mib: f64,
    pub reserved_mib: f64,
    pub stage: String,
    /// At most [`LARGEST`].
    pub largest: Vec<PeakBlocks>,
    /// All that is alive besides.
    pub others_mib: f64,
    /// The largest block of the step: it needs its place in one piece, alive at the peak or not.
    pub largest_request: PeakRequest,
    /// Room less the context.
    pub limit_mib: f64,
    /// `None`: within the limit it runs to its end.
    pub out_of_memory: Option<PeakFailure>,
}

/// Groups of blocks that are named.
pub const LARGEST: usize = 6;

/// The stream that a workload is replayed from.
pub(crate) struct Followed {
    pub stream: Stream,
    pub origin: Origin,
    pub scaled: bool,
}

/// On this class of device: one that is known, else the shapes' own. `None` where the model's layers are not known, and
/// for a bake, which is no step.
pub(crate) fn followed(
    workload: &Workload,
    class: &DeviceClass,
    knowledge: &Knowledge,
) -> Option<Followed> {
    let recipe = workload.recipe.as_ref()?;
    if workload.mode == Mode::Bake {
        return None;
    }
    if let Some(found) = knowledge
        .streams()
        .find(workload, planning::workspace(class))
    {
        return Some(Followed {
            stream: found.stream,
            origin: found.origin,
            scaled: found.scaled,
        });
    }
    let plan = planning::plan(recipe, workload.mode, class).filter(planning::is_reasonable)?;
    Some(Followed {
        stream: stream(&plan),
        origin: Origin::Shapes,
        scaled: false,
    })
}

/// `None` where there is no stream to replay.
#[must_use]
pub fn peak(
    workload: &Workload,
    class: &DeviceClass,
    load: &DeviceLoad,
    knowledge: &Knowledge,
) -> Option<Peak> {
    let recipe = workload.recipe.as_ref()?;
    let followed = followed(workload, class, knowledge)?;
    let stream = &followed.stream;
    let known = estimate(workload, class, knowledge);
    let context = known.map_or(Bytes::ZERO, |known| known.context);
    let limit = load.room().saturating_sub(context);
    let within = |limit| ReplaySettings {
        limit,
        expandable_segments: recipe.expandable_segments,
        alive_at_peak: false,
    };
    let roomy = explain(stream, within(None));
    let tight = explain(stream, within(Some(limit)));
    let (largest, others_mib) = largest(stream, roomy.peak_event + 1, recipe);
    let failure = tight.wanted.as_ref().map(|wanted| PeakFailure {
        wanted: request(stream, wanted.event, &tight, recipe),
        allocated_mib: wanted.allocated_mib,
        reserved_mib: wanted.reserved_mib,
    });
    Some(Peak {
        stream: followed.origin,
        scaled: followed.scaled,
        allocated_mib: roomy.replayed.allocated_mib,
        reserved_mib: roomy.replayed.reserved_mib,
        stage: roomy.peak_stage.clone(),
        largest,
        others_mib,
        largest_request: request(stream, largest_in_step(stream)?, &roomy, recipe),
        limit_mib: tenth(limit.0),
        out_of_memory: failure,
    })
}

/// The event of the step that asks for most, the first of equals.
fn largest_in_step(stream: &Stream) -> Option<usize> {
    let first = stream.events.iter().position(|one| *one == Event::Mark(1));
    let asked = stream.events.iter().enumerate().skip(first.unwrap_or(0));
    let asked = asked.filter_map(|(at, event)| match event {
        Event::Alloc { bytes, .. } => Some((*bytes, std::cmp::Reverse(at))),
        _ => None,
    });
    asked.max().map(|(_, at)| at.0)
}

fn request(stream: &Stream, event: usize, explained: &Explanation, recipe: &Recipe) -> PeakRequest {
    let (bytes, label) = match stream.events.get(event) {
        Some(Event::Alloc { bytes, label }) => (*bytes, *label),
        _ => (0, 0),
    };
    let name = name_of(stream, bytes, label);
    let (module, line) = split(&name);
    PeakRequest {
        note: note(recipe, bytes, (module, line), true),
        module: module.to_owned(),
        line: line.to_owned(),
        mib: tenth(bytes),
        stage: stage_at(&explained.stages, event),
    }
}

#[derive(Default)]
struct Group {
    bytes: u64,
    blocks: u64,
    modules: BTreeSet<String>,
}

/// The largest groups alive after so many events, and what the others take together.
fn largest(stream: &Stream, at: usize, recipe: &Recipe) -> (Vec<PeakBlocks>, f64) {
    let mut groups: BTreeMap<(String, String, Option<String>), Group> = BTreeMap::new();
    let mut total = 0;
    for Living {
        bytes,
        label,
        in_step,
    } in living(stream, at)
    {
        let name = name_of(stream, bytes, label);
        let (module, line) = split(&name);
        let note = note(recipe, bytes, (module, line), in_step);
        let group = groups
            .entry((any_layer(module), line.to_owned(), note))
            .or_default();
        group.bytes += rounded(bytes);
        group.blocks += 1;
        group.modules.insert(module.to_owned());
        total += rounded(bytes);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.bytes));
    let others = groups.iter().skip(LARGEST).map(|(_, group)| group.bytes);
    let others = tenth(others.sum());
    let named = groups
        .into_iter()
        .take(LARGEST)
        .map(|((any, line, note), group)| {
            let mut own = group.modules.into_iter();
            PeakBlocks {
                // Of one layer alone: that one.
                module: own.next().filter(|_| own.next().is_none()).unwrap_or(any),
                line,
                note,
                mib: tenth(group.bytes),
                share: (group.bytes as f64 / (total as f64).max(1.0) * 1000.0).round() / 1000.0,
                blocks: group.blocks,
            }
        });
    (named.collect(), others)
}

fn tenth(bytes: u64) -> f64 {
    (bytes as f64 / MIB as f64 * 10.0).round() / 10.0
}
