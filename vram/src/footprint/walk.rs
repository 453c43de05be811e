//! A stream walked through: what is alive after each allocation, and where its stages lie.

use super::{
    FIRST_LAYER, FORWARD, Footprint, LAST_LAYER, LOSS, LOSS_AND_BACKWARD, NAMES, OPTIMIZER, Stage,
    largest,
};
use crate::step::{AFTER_LOAD, BLOCK, NEXT_STEP, SEGMENT};
use crate::stream::{Event, Stream};
use crate::tape::Part;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Forward,
    /// The loss and, where nothing is checkpointed, all of backward.
    Loss,
    /// One checkpointed layer, run again and backward; they come from the last layer to the first.
    Segment,
    Optimizer,
}

/// Allocations of one stage.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub step: usize,
    pub place: Place,
    pub start: usize,
    pub end: usize,
    /// Of a forward stage: where its third block begins.
    pub third: usize,
}

/// Bytes alive by part, as [`Part::ALL`] has them.
pub(super) type Live = [u64; Part::ALL.len()];

/// (Frees are not counted: they differ in number between models, as a cache that is cleared at once holds more, the more
/// layers there are.)
pub(super) struct Walk {
    events: Vec<Event>,
    pub sizes: Vec<u64>,
    pub totals: Vec<u64>,
    pub spans: Vec<Span>,
    pub after_load: u64,
    pub pre_step: u64,
}

impl Walk {
    pub(super) fn of(stream: &Stream) -> Self {
        let mut walk = Self {
            events: stream.events.clone(),
            sizes: Vec::with_capacity(stream.events.len() / 2),
            totals: Vec::with_capacity(stream.events.len() / 2),
            spans: Vec::new(),
            after_load: 0,
            pre_step: 0,
        };
        let mut total = 0;
        for event in &stream.events {
            match *event {
                Event::Alloc { bytes, .. } => {
                    walk.sizes.push(rounded(bytes));
                    total += rounded(bytes);
                    walk.totals.push(total);
                }
                Event::Free { alloc } => total -= walk.sizes[alloc as usize],
                Event::Mark(AFTER_LOAD) => walk.after_load = total,
                Event::Mark(1) => walk.pre_step = total,
                Event::Mark(_) | Event::EmptyCache => {}
            }
        }
        walk.find_spans();
        walk
    }

    fn find_spans(&mut self) {
        let (mut step, mut at, mut blocks) = (0, 0, 0);
        let mut open: Option<Span> = None;
        for event in &self.events {
            at += usize::from(matches!(event, Event::Alloc { .. }));
            let place = match *event {
                Event::Mark(1) => Some(Place::Forward),
                Event::Mark(NEXT_STEP) => {
                    step = 1;
                    Some(Place::Forward)
                }
                Event::Mark(2) => Some(Place::Loss),
                Event::Mark(SEGMENT) => Some(Place::Segment),
                Event::Mark(3) => Some(Place::Optimizer),
                Event::Mark(4) => None,
                Event::Mark(BLOCK) => {
                    blocks += 1;
                    if let (3, Some(span)) = (blocks, open.as_mut()) {
                        span.third = at;
                    }
                    continue;
                }
                _ => continue,
            };
            self.spans
                .extend(open.take().map(|span| Span { end: at, ..span }));
            blocks = 0;
            open = place.map(|place| Span {
                step,
                place,
                start: at,
                end: at,
                third: at,
            });
        }
    }

    pub(super) fn spans(&self, step: usize, place: Place) -> Vec<Span> {
        let all = self.spans.iter().copied();
        all.filter(|span| span.step == step && span.place == place)
            .collect()
    }

    pub(super) fn sizes_of(&self, span: Span) -> &[u64] {
        self.sizes.get(span.start..span.end).unwrap_or_default()
    }

    /// Of this very stream.
    pub(super) fn footprint(&self) -> Footprint {
        let segments = self.spans.iter().any(|span| span.place == Place::Segment);
        let mut before = Place::Optimizer;
        let stages = self.spans.iter().filter_map(|span| {
            let name = match (span.place, std::mem::replace(&mut before, span.place)) {
                (Place::Forward, _) => FORWARD,
                (Place::Loss, _) if segments => LOSS,
                (Place::Loss, _) => LOSS_AND_BACKWARD,
                (Place::Segment, Place::Segment) => FIRST_LAYER,
                (Place::Segment, _) => LAST_LAYER,
                (Place::Optimizer, _) => OPTIMIZER,
            };
            let totals = self.totals.get(span.start..span.end)?.iter().enumerate();
            let (top, _) = totals.max_by_key(|(at, total)| (**total, std::cmp::Reverse(*at)))?;
            Some(Stage::new(
                NAMES[span.step][name],
                self.alive(span.start + top),
            ))
        });
        Footprint {
            after_load: self.after_load,
            pre_step: self.pre_step,
            stages: largest(stages),
        }
    }

    /// Bytes alive after an allocation, by part.
    pub(super) fn alive(&self, at: usize) -> Live {
        let mut live: Live = Default::default();
        let mut parts: Vec<usize> = Vec::with_capacity(at + 1);
        for event in &self.events {
            if parts.len() > at {
                break;
            }
            match *event {
                Event::Alloc { label, .. } => {
                    let part = (label as usize).min(Part::ALL.len() - 1);
                    live[part] += self.sizes[parts.len()];
                    parts.push(part);
                }
                Event::Free { alloc } => live[parts[alloc as usize]] -= self.sizes[alloc as usize],
                Event::Mark(_) | Event::EmptyCache => {}
            }
        }
        live
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(512) * 512
}
