//! The peak explained: allocated and reserved memory over a stream's step, the peak, and the blocks alive there by what
//! they belong to. The answer of `sweep vram explain`. Explains streams without labels by the sizes of their blocks.

use serde::{Deserialize, Serialize};

use crate::allocator::{Allocator, AllocatorSettings};
use crate::label::{in_words, module_of};
use crate::replay::{Alive, ReplayAnswer, ReplaySettings, ReplayStatus, name_of, replay};
use crate::step::NEXT_STEP;
use crate::stream::{Event, Stream};
use crate::{Bytes, MIB};

/// One point of the timeline: the highest of the events that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    pub event: usize,
    pub allocated_mib: f64,
    pub reserved_mib: f64,
}

/// A mark of the stream, in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageMark {
    pub event: usize,
    pub name: String,
}

/// The block that found no room, and how full the memory was when it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    pub event: usize,
    pub label: String,
    pub mib: f64,
    /// Stage in which it was asked for.
    pub stage: String,
    pub allocated_mib: f64,
    /// After the allocator had given back what it could.
    pub reserved_mib: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub replayed: ReplayAnswer,
    pub peak_event: usize,
    /// Stage in which the peak falls.
    pub peak_stage: String,
    /// By where in the model (`layers.7`, `lm_head`, `head`), largest first.
    pub by_module: Vec<Alive>,
    pub stages: Vec<StageMark>,
    /// The step only, at most [`MOMENTS`] points.
    pub timeline: Vec<Moment>,
    /// The largest blocks that were asked for during the step, by label, alive at the peak or not; `blocks` counts them.
    #[serde(default)]
    pub largest: Vec<Alive>,
    pub limit_mib: Option<f64>,
    /// Where it ran out of memory.
    #[serde(default)]
    pub wanted: Option<Wanted>,
}

pub const MOMENTS: usize = 600;

#[must_use]
pub fn explain(stream: &Stream, settings: ReplaySettings) -> Explanation {
    let replayed = replay(
        stream,
        ReplaySettings {
            alive_at_peak: true,
            ..settings
        },
    );
    let walked = walk(stream, settings);
    let first = walked.first().map_or(0, |moment| moment.event);
    // The first of equals: where it got there.
    let peak = walked
        .iter()
        .fold(None::<&Moment>, |best, moment| match best {
            Some(best) if best.allocated_mib >= moment.allocated_mib => Some(best),
            _ => Some(moment),
        });
    let peak_event = peak.map_or(first, |moment| moment.event);
    let stages = stages(stream);
    let wanted = wanted(stream, &replayed, &walked, &stages);
    Explanation {
        by_module: by_module(&replayed.alive_at_peak),
        peak_stage: stage_at(&stages, peak_event),
        peak_event,
        stages,
        timeline: thinned(&walked),
        largest: largest(stream),
        limit_mib: settings.limit.map(Bytes::mib),
        wanted,
        replayed,
    }
}

fn wanted(
    stream: &Stream,
    replayed: &ReplayAnswer,
    walked: &[Moment],
    stages: &[StageMark],
) -> Option<Wanted> {
    let event = replayed.events;
    let Event::Alloc { bytes, label } = *stream.events.get(event)? else {
        return None;
    };
    let last = walked
        .last()
        .filter(|_| replayed.status == ReplayStatus::Oom)?;
    let tenth = |mib: f64| (mib * 10.0).round() / 10.0;
    Some(Wanted {
        event,
        label: in_words(&name_of(stream, bytes, label)),
        mib: tenth(bytes as f64 / MIB as f64),
        stage: stage_at(stages, event),
        allocated_mib: tenth(last.allocated_mib),
        reserved_mib: tenth(last.reserved_mib),
    })
}

/// The stage that an event falls in.
pub(crate) fn stage_at(stages: &[StageMark], event: usize) -> String {
    let before = stages.iter().rev().find(|mark| mark.event <= event);
    before.map_or("load", |mark| mark.name.as_str()).to_owned()
}

/// Allocated and reserved after each event of the step, the one that found no room among them.
fn walk(stream: &Stream, settings: ReplaySettings) -> Vec<Moment> {
    let kind = AllocatorSettings {
        expandable_segments: settings.expandable_segments,
    };
    let start = position(stream, 1).unwrap_or(0);
    let mut memory = Allocator::new(kind, None);
    let mut handles: Vec<Option<u32>> = Vec::new();
    let mut moments = Vec::with_capacity(stream.events.len().saturating_sub(start));
    for (event, one) in stream.events.iter().enumerate() {
        let mut ended = false;
        match *one {
            Event::Alloc { bytes: 0, .. } => handles.push(None),
            Event::Alloc { bytes, .. } => {
                let handle = memory.malloc(bytes).ok();
                ended = handle.is_none();
                handles.push(handle);
            }
            Event::Free { alloc } => {
                let handle = handles.get_mut(alloc as usize).and_then(Option::take);
                if let Some(handle) = handle {
                    memory.release(handle);
                }
            }
            Event::EmptyCache => memory.empty_cache(),
            Event::Mark(1) => memory.limit = settings.limit.map(|limit| limit.0),
            Event::Mark(_) => {}
        }
        if event >= start {
            moments.push(Moment {
                event,
                allocated_mib: memory.allocated as f64 / MIB as f64,
                reserved_mib: memory.reserved as f64 / MIB as f64,
            });
        }
        if ended {
            break;
        }
    }
    moments
}

fn position(stream: &Stream, mark: u8) -> Option<usize> {
    let wanted = |event: &Event| *event == Event::Mark(mark);
    stream.events.iter().position(wanted)
}

/// Marks 2 and 3 end a stage: what they begin is named. Only streams of the shapes say where the next step begins; of
/// others its forward follows the optimizer without a mark.
pub(crate) fn stages(stream: &Stream) -> Vec<StageMark> {
    let is_mark = |(event, one): (usize, &Event)| match one {
        Event::Mark(mark @ (1..=4 | NEXT_STEP)) => Some((event, *mark)),
        _ => None,
    };
    let marks: Vec<(usize, u8)> = stream
        .events
        .iter()
        .enumerate()
        .filter_map(is_mark)
        .collect();
    let mut step = 1;
    let mut stages = Vec::with_capacity(marks.len());
    for (at, (event, mark)) in marks.iter().enumerate() {
        let unmarked = |mark: u8, next: Option<&(usize, u8)>| {
            mark == 3 && next.is_some_and(|(_, next)| *next == 2)
        };
        let before = at.checked_sub(1).map_or(0, |before| marks[before].1);
        step += u32::from(*mark == NEXT_STEP || unmarked(before, Some(&(*event, *mark))));
        let of_step = |name: &str| match step {
            1 => name.to_owned(),
            step => format!("{name}, step {step}"),
        };
        let name = match mark {
            2 => of_step("backward"),
            3 if unmarked(3, marks.get(at + 1)) => {
                of_step("optimizer, then the next forward and loss")
            }
            3 => of_step("optimizer"),
            4 => "end".to_owned(),
            _ => of_step("forward and loss"),
        };
        stages.push(StageMark {
            event: *event,
            name,
        });
    }
    stages
}

/// Labels with a large block, the largest first; blocks of one label and size are one line.
fn largest(stream: &Stream) -> Vec<Alive> {
    const SHOWN: usize = 8;
    let start = position(stream, 1).unwrap_or(0);
    let mut asked: std::collections::BTreeMap<(u64, String), u64> =
        std::collections::BTreeMap::new();
    for event in &stream.events[start..] {
        if let Event::Alloc { bytes, label } = *event
            && bytes >= LARGE
        {
            let name = in_words(&name_of(stream, bytes, label));
            *asked.entry((bytes, name)).or_default() += 1;
        }
    }
    let lines = asked.into_iter().rev().take(SHOWN);
    lines
        .map(|((bytes, label), blocks)| Alive {
            label,
            mib: (bytes as f64 / MIB as f64 * 10.0).round() / 10.0,
            blocks,
        })
        .collect()
}

/// Smaller blocks find their place anywhere.
const LARGE: u64 = 20 << 20;

fn by_module(alive: &[Alive]) -> Vec<Alive> {
    let mut modules: std::collections::BTreeMap<String, (f64, u64)> =
        std::collections::BTreeMap::new();
    for one in alive {
        let name = module_of(&one.label);
        let sum = modules.entry(name).or_default();
        sum.0 += one.mib;
        sum.1 += one.blocks;
    }
    let mut modules: Vec<Alive> = modules
        .into_iter()
        .map(|(label, (mib, blocks))| Alive {
            label,
            mib: (mib * 100.0).round() / 100.0,
            blocks,
        })
        .collect();
    modules.sort_by(|a, b| b.mib.total_cmp(&a.mib).then(a.label.cmp(&b.label)));
    modules
}

/// As many points as a drawing can show, each the highest of its events.
fn thinned(walked: &[Moment]) -> Vec<Moment> {
    let rounded = |mib: f64| (mib * 10.0).round() / 10.0;
    let pieces = walked.chunks(walked.len().div_ceil(MOMENTS).max(1));
    let highest = pieces.filter_map(|piece| {
        let top = piece
            .iter()
            .max_by(|a, b| a.allocated_mib.total_cmp(&b.allocated_mib))?;
        let reserved = piece.iter().map(|one| one.reserved_mib);
        Some(Moment {
            event: top.event,
            allocated_mib: rounded(top.allocated_mib),
            reserved_mib: rounded(reserved.fold(0.0, f64::max)),
        })
    });
    highest.collect()
}
