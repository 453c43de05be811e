//! The peak explained: allocated and reserved memory over a stream's step, the peak, and the blocks alive there by what
//! they belong to. The answer of `sweep vram explain`. Explains streams without labels by the sizes of their blocks.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::allocator::{Allocator, AllocatorSettings};
use crate::replay::{Alive, ReplayAnswer, ReplaySettings, replay};
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
    pub limit_mib: Option<f64>,
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
    let before = stages.iter().rev().find(|mark| mark.event <= peak_event);
    Explanation {
        by_module: by_module(&replayed.alive_at_peak),
        peak_stage: before.map_or("load", |mark| mark.name.as_str()).to_owned(),
        peak_event,
        stages,
        timeline: thinned(&walked),
        limit_mib: settings.limit.map(Bytes::mib),
        replayed,
    }
}

/// Allocated and reserved after each event of the step.
fn walk(stream: &Stream, settings: ReplaySettings) -> Vec<Moment> {
    let kind = AllocatorSettings {
        expandable_segments: settings.expandable_segments,
    };
    let start = position(stream, 1).unwrap_or(0);
    let mut memory = Allocator::new(kind, None);
    let mut handles: Vec<Option<u32>> = Vec::new();
    let mut moments = Vec::with_capacity(stream.events.len().saturating_sub(start));
    for (event, one) in stream.events.iter().enumerate() {
        match *one {
            Event::Alloc { bytes: 0, .. } => handles.push(None),
            Event::Alloc { bytes, .. } => {
                let Ok(handle) = memory.malloc(bytes) else {
                    break;
                };
                handles.push(Some(handle));
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
    }
    moments
}

fn position(stream: &Stream, mark: u8) -> Option<usize> {
    let wanted = |event: &Event| *event == Event::Mark(mark);
    stream.events.iter().position(wanted)
}

/// Marks 2 and 3 end a stage: what they begin is named.
fn stages(stream: &Stream) -> Vec<StageMark> {
    let mut stages = Vec::new();
    let (mut step, mut open) = (1, false);
    for (event, one) in stream.events.iter().enumerate() {
        let name = match *one {
            Event::Mark(1) => "forward and loss",
            Event::Mark(2) => "backward",
            Event::Mark(3) => "optimizer",
            Event::Mark(4) => "end",
            _ => continue,
        };
        // A stream has no mark where the next step begins: its forward goes from the optimizer to mark 2.
        if *one == Event::Mark(2) && open {
            step += 1;
        }
        open = *one == Event::Mark(3);
        let name = if step > 1 && name != "end" {
            format!("{name}, step {step}")
        } else {
            name.to_owned()
        };
        stages.push(StageMark { event, name });
    }
    stages
}

/// Labels are `MODULE PLACE`; layers are told apart by their number.
fn by_module(alive: &[Alive]) -> Vec<Alive> {
    let mut modules: std::collections::BTreeMap<String, (f64, u64)> =
        std::collections::BTreeMap::new();
    for one in alive {
        let module = one.label.split(' ').next().unwrap_or_default();
        let layer: Vec<&str> = module.split('.').take(2).collect();
        let name = if layer.first() == Some(&"layers") {
            layer.join(".")
        } else if one.label.contains(".py:") || one.label.contains("backward:") {
            module.to_owned()
        } else {
            one.label.clone()
        };
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

/// Allocated (filled) and reserved (line) over the events of the step, its stages, the limit and the peak.
#[must_use]
pub fn timeline_svg(explained: &Explanation) -> String {
    const WIDTH: f64 = 860.0;
    const HEIGHT: f64 = 360.0;
    const LEFT: f64 = 64.0;
    const TOP: f64 = 40.0;
    let first = explained.timeline.first().map_or(0, |one| one.event) as f64;
    let last = explained.timeline.last().map_or(1, |one| one.event) as f64;
    let reserved = explained.timeline.iter().map(|one| one.reserved_mib);
    let most = reserved.fold(explained.limit_mib.unwrap_or(0.0), f64::max);
    let top = (most / 1024.0).ceil().max(1.0) * 1024.0;
    let across = |event: f64| LEFT + (event - first) / (last - first).max(1.0) * WIDTH;
    let up = |mib: f64| TOP + HEIGHT - mib / top * HEIGHT;
    let (width, height) = (LEFT + WIDTH + 24.0, TOP + HEIGHT + 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for gib in 0..=(top / 1024.0) as u32 {
        let y = up(f64::from(gib) * 1024.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{gib} GiB</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            y + 4.0,
        );
    }
    let mut area = format!("M{LEFT:.1},{:.1}", up(0.0));
    let mut line = String::new();
    for one in &explained.timeline {
        let x = across(one.event as f64);
        let _ = write!(area, " L{x:.1},{:.1}", up(one.allocated_mib));
        let head = if line.is_empty() { 'M' } else { 'L' };
        let _ = write!(line, "{head}{x:.1},{:.1} ", up(one.reserved_mib));
    }
    let _ = writeln!(
        svg,
        "<path d=\"{area} L{:.1},{:.1} Z\" fill=\"#aed6f1\"/>\n<path d=\"{line}\" fill=\"none\" stroke=\"#2471a3\"/>",
        LEFT + WIDTH,
        up(0.0),
    );
    for mark in explained.stages.iter().filter(|mark| mark.name != "end") {
        let x = across(mark.event as f64);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#999\" stroke-dasharray=\"3 3\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555\">{}</text>",
            TOP + HEIGHT,
            x + 3.0,
            TOP + HEIGHT + 16.0,
            mark.name,
        );
    }
    if let Some(limit) = explained.limit_mib {
        let y = up(limit);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#c0392b\"/>\
             <text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#c0392b\">limit {limit:.0} MiB</text>",
            LEFT + WIDTH,
            y - 4.0,
        );
    }
    let (x, y) = (
        across(explained.peak_event as f64),
        up(explained.replayed.allocated_mib),
    );
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#c0392b\"/>\n<text x=\"{LEFT}\" y=\"20\">peak allocated \
         {:.1} MiB in {}, reserved {:.1} MiB</text>\n</svg>",
        explained.replayed.allocated_mib, explained.peak_stage, explained.replayed.reserved_mib,
    );
    svg
}
