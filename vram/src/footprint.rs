//! A planned step's peaks, stage by stage and part by part, in two ways: from the whole stream, replayed through the
//! allocator's model; and from two short models of the same shape, since each stage's peak is a line in the number of
//! layers. The first is exact and takes tens of milliseconds, the second one or two and is off by the rounding to blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::step::{AFTER_LOAD, NEXT_STEP, Plan, SEGMENT, stream};
use crate::stream::{Event, Stream};
use crate::tape::Part;

/// What the closed form says of one planned run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Footprint {
    pub after_load: u64,
    pub pre_step: u64,
    pub stages: Vec<Stage>,
}

/// The largest live bytes within one stage, by part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub name: &'static str,
    pub parts: BTreeMap<Part, u64>,
}

impl Stage {
    pub(crate) fn total(&self) -> u64 {
        self.parts
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl Footprint {
    /// The stage that decides; the first of equals.
    pub(crate) fn peak(&self) -> Option<&Stage> {
        let mut best: Option<&Stage> = None;
        for stage in &self.stages {
            if best.is_none_or(|best| stage.total() > best.total()) {
                best = Some(stage);
            }
        }
        best
    }
}

/// Plans asked for before: the same plan has the same footprint, so this changes nothing but the time it takes.
static SEEN: Mutex<BTreeMap<Plan, Arc<Footprint>>> = Mutex::new(BTreeMap::new());
const MOST_SEEN: usize = 4096;

/// The footprint of a plan, computed once.
pub(crate) fn footprint_of(plan: &Plan) -> Arc<Footprint> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen.get(plan) {
        return Arc::clone(known);
    }
    if seen.len() >= MOST_SEEN {
        seen.clear();
    }
    let made = Arc::new(footprint(plan));
    seen.insert(plan.clone(), Arc::clone(&made));
    made
}

/// Layers of the two short models: a first and a last layer, and one or two between them.
const SHORT: [u64; 2] = [3, 4];

pub(crate) fn footprint(plan: &Plan) -> Footprint {
    if plan.arch.layers <= SHORT[1] {
        let whole = Walk::of(&stream(plan));
        return between(&whole, &whole, 0);
    }
    let [few, more] = SHORT.map(|layers| {
        let mut short = plan.clone();
        short.arch.layers = layers;
        // Of a sliding pattern keep what is alive longest: the first layer slides, one attends to everything.
        if short.arch.full_every > layers {
            short.arch.full_every = 2;
        }
        Walk::of(&stream(&short))
    });
    between(&few, &more, plan.arch.layers - SHORT[1])
}

/// `more` and its difference to `few`, `times` over.
fn line(few: u64, more: u64, times: u64) -> u64 {
    let slope = i128::from(more) - i128::from(few);
    u64::try_from(i128::from(more) + slope * i128::from(times)).unwrap_or(0)
}

fn between(few: &Walk, more: &Walk, times: u64) -> Footprint {
    let stages = few.stages.iter().zip(&more.stages);
    Footprint {
        after_load: line(few.after_load, more.after_load, times),
        pre_step: line(few.pre_step, more.pre_step, times),
        stages: stages
            .filter_map(|stages| top(few, more, stages, times))
            .collect(),
    }
}

/// Where within a stage most is alive: its events in both short models side by side, each extended on its own line.
fn top(few: &Walk, more: &Walk, stages: (&Span, &Span), times: u64) -> Option<Stage> {
    let (a, b) = stages;
    let (long_a, long_b) = (a.end - a.start, b.end - b.start);
    // A stage that grows with the layers is alike in its beginning or (forward) from its last layer on.
    let layer = long_b.saturating_sub(long_a);
    let length = if a.ends_alike || !few.checkpointed {
        long_a.saturating_sub(2 * layer)
    } else {
        long_a.min(long_b)
    };
    let (from_a, from_b) = if a.ends_alike {
        (a.end - length, b.end - length)
    } else {
        (a.start, b.start)
    };
    let totals = few.totals[from_a..]
        .iter()
        .zip(&more.totals[from_b..])
        .take(length);
    let extended = totals
        .map(|(few, more)| line(*few, *more, times))
        .enumerate();
    let (at, _) = extended.max_by_key(|(at, total)| (*total, std::cmp::Reverse(*at)))?;
    let (few, more) = (few.alive(from_a + at), more.alive(from_b + at));
    let parts = Part::ALL
        .into_iter()
        .map(|part| (part, line(few[part as usize], more[part as usize], times)));
    Some(Stage {
        name: b.name,
        parts: parts.filter(|(_, bytes)| *bytes > 0).collect(),
    })
}

/// Allocations of one stage.
struct Span {
    name: &'static str,
    start: usize,
    end: usize,
    ends_alike: bool,
}

/// A stream with what is alive after each of its allocations. (Frees differ in number: a cache that is cleared at once
/// holds more, the more layers there are.)
struct Walk {
    events: Vec<Event>,
    totals: Vec<u64>,
    stages: Vec<Span>,
    after_load: u64,
    pre_step: u64,
    /// Layers run again in backward, each a segment; else backward is one stage.
    checkpointed: bool,
}

/// Names of the stages of the first and of later steps: later ones have the optimizer's state.
const NAMES: [[&str; 5]; 2] = [
    [
        "forward",
        "loss",
        "backward, last layer",
        "backward, first layer",
        "optimizer",
    ],
    [
        "forward, later steps",
        "loss, later steps",
        "backward, last layer, later steps",
        "backward, first layer, later steps",
        "optimizer, later steps",
    ],
];

impl Walk {
    fn of(stream: &Stream) -> Self {
        let mut walk = Self {
            events: stream.events.clone(),
            totals: Vec::with_capacity(stream.events.len()),
            stages: Vec::new(),
            after_load: 0,
            pre_step: 0,
            checkpointed: stream.events.contains(&Event::Mark(SEGMENT)),
        };
        let (mut sizes, mut total) = (Vec::with_capacity(stream.events.len() / 2), 0);
        for event in &stream.events {
            match *event {
                Event::Alloc { bytes, .. } => {
                    sizes.push(rounded(bytes));
                    total += rounded(bytes);
                    walk.totals.push(total);
                }
                Event::Free { alloc } => total -= sizes[alloc as usize],
                Event::Mark(AFTER_LOAD) => walk.after_load = total,
                Event::Mark(1) => walk.pre_step = total,
                Event::Mark(_) | Event::EmptyCache => {}
            }
        }
        walk.find_stages();
        walk
    }

    fn find_stages(&mut self) {
        let marks = |wanted: u8| {
            self.events
                .iter()
                .filter(|event| **event == Event::Mark(wanted))
                .count()
        };
        let each = marks(SEGMENT) / marks(2).max(1);
        let (mut step, mut place, mut stages) = (0, 0, Vec::new());
        let mut open: Option<(&'static str, usize, bool)> = None;
        let mut at = 0;
        for event in &self.events {
            at += usize::from(matches!(event, Event::Alloc { .. }));
            let next = match *event {
                Event::Mark(1) => Some((NAMES[0][0], true)),
                Event::Mark(NEXT_STEP) => {
                    (step, place) = (1, 0);
                    Some((NAMES[1][0], true))
                }
                Event::Mark(2) => Some((NAMES[step][1], false)),
                Event::Mark(SEGMENT) => {
                    place += 1;
                    // Layers between the first and the last to be run again lie between them in memory, too.
                    match place {
                        1 => Some((NAMES[step][2], false)),
                        2 if each > 2 => Some(("", false)),
                        place if place == each => Some((NAMES[step][3], false)),
                        _ => None,
                    }
                }
                Event::Mark(3) => Some((NAMES[step][4], true)),
                Event::Mark(4) => Some(("", false)),
                _ => None,
            };
            let Some((name, ends_alike)) = next else {
                continue;
            };
            if let Some((name, start, ends_alike)) = open.take() {
                stages.push(Span {
                    name,
                    start,
                    end: at,
                    ends_alike,
                });
            }
            open = (!name.is_empty()).then_some((name, at, ends_alike));
        }
        self.stages = stages;
    }

    /// Bytes alive after an allocation, by part.
    fn alive(&self, at: usize) -> [u64; Part::ALL.len()] {
        let mut live = [0; Part::ALL.len()];
        let mut blocks = Vec::new();
        for event in &self.events {
            if blocks.len() > at {
                break;
            }
            match *event {
                Event::Alloc { bytes, label } => {
                    let part = (label as usize).min(Part::ALL.len() - 1);
                    blocks.push((rounded(bytes), part));
                    live[part] += rounded(bytes);
                }
                Event::Free { alloc } => {
                    let (bytes, part) = blocks[alloc as usize];
                    live[part] -= bytes;
                }
                Event::Mark(_) | Event::EmptyCache => {}
            }
        }
        live
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(512) * 512
}
