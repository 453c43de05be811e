//! A model of many layers from two short ones whose layers cost the same: whatever is alive at one of their allocations
//! is a line in the number of layers, as long as the same allocations are compared. Knows nothing of which layers slide;
//! it is told where in the whole model layers of its kind stand.

use super::walk::{Live, Place, Span, Walk};
use super::{
    FIRST_LAYER, FORWARD, Footprint, LAST_LAYER, LOSS, LOSS_AND_BACKWARD, NAMES, OPTIMIZER, Stage,
    largest,
};
use crate::step::{Plan, stream};
use crate::tape::Part;

/// Layers of the shorter one: the first and the last, which differ from the others, the second, whose input comes from the
/// first, and one like all that the longer one and the whole model have more.
pub(super) const SHORT: u64 = 4;

/// Where in the whole model layers of one kind stand, counted from 0.
pub(super) struct Standing {
    pub first: bool,
    pub last: bool,
    /// The lowest and the highest of those that are neither first nor last.
    pub between: Option<(u64, u64)>,
    /// A mask that the second layer of the short models still holds; in the whole model it was given back before, so
    /// that the layers below the lowest do without it.
    pub freed_before_second: Option<u64>,
    pub layers: u64,
}

impl Standing {
    pub(super) fn of(layers: u64, is: impl Fn(u64) -> bool) -> Self {
        let mut between = (1..layers - 1).filter(|layer| is(*layer));
        let low = between.next();
        Self {
            first: is(0),
            last: is(layers - 1),
            between: low.map(|low| (low, between.next_back().unwrap_or(low))),
            freed_before_second: None,
            layers,
        }
    }
}

/// `more` and its difference to `few`, `times` over.
fn line(few: u64, more: u64, times: u64) -> u64 {
    let slope = i128::from(more) - i128::from(few);
    u64::try_from(i128::from(more) + slope * i128::from(times)).unwrap_or(0)
}

pub(super) fn extended(plan: &Plan, standing: &Standing) -> Footprint {
    let walk = |layers| {
        let mut short = plan.clone();
        short.arch.layers = layers;
        Walk::of(&stream(&short))
    };
    let both = Both {
        few: walk(SHORT),
        more: walk(SHORT + 1),
        times: standing.layers - (SHORT + 1),
    };
    let mut stages = Vec::new();
    for (step, names) in NAMES.iter().enumerate() {
        both.stages(step, names, standing, &mut stages);
    }
    Footprint {
        after_load: line(both.few.after_load, both.more.after_load, both.times),
        pre_step: line(both.few.pre_step, both.more.pre_step, both.times),
        stages: largest(stages.into_iter()),
    }
}

/// The two short models side by side.
struct Both {
    few: Walk,
    more: Walk,
    /// Layers of the whole model beyond those of the longer one.
    times: u64,
}

/// The same allocation in both, and what is alive after it in the whole model.
#[derive(Clone, Copy)]
struct Top {
    few: usize,
    more: usize,
    total: u64,
}

impl Both {
    fn stages(&self, step: usize, names: &[&'static str; 6], at: &Standing, out: &mut Vec<Stage>) {
        let of = |place| (self.few.spans(step, place), self.more.spans(step, place));
        let only = |place| {
            let (few, more) = of(place);
            few.first().copied().zip(more.first().copied())
        };
        let mut found: Vec<(usize, Option<Top>)> = Vec::new();
        let (few, more) = of(Place::Segment);
        let loss = if few.is_empty() {
            LOSS_AND_BACKWARD
        } else {
            LOSS
        };
        for (name, place) in [
            (FORWARD, Place::Forward),
            (loss, Place::Loss),
            (OPTIMIZER, Place::Optimizer),
        ] {
            if let Some(spans) = only(place) {
                let (from_start, to_end) = self.tops(spans);
                found.extend([(name, from_start), (name, to_end)]);
            }
        }
        if let (
            [last, one_before, second, first],
            [more_last, more_before, .., more_second, more_first],
        ) = (few.as_slice(), more.as_slice())
        {
            let top = |few: &Span, more: &Span| {
                let (from_start, to_end) = self.tops((*few, *more));
                from_start
                    .into_iter()
                    .chain(to_end)
                    .max_by_key(|top| top.total)
            };
            found.push((LAST_LAYER, top(last, more_last).filter(|_| at.last)));
            found.push((FIRST_LAYER, top(first, more_first).filter(|_| at.first)));
            let (low, high) = (top(second, more_second), top(one_before, more_before));
            if let (Some(low), Some(high), Some(between)) = (low, high, at.between) {
                let (low, high) = (self.alive(low), self.alive(high));
                for (name, layer) in [(LAST_LAYER, between.1), (FIRST_LAYER, between.0)] {
                    let live = partway(&low, &high, layer - 1, at.layers - 3);
                    out.push(Stage::new(names[name], live));
                }
                if let Some(mask) = at.freed_before_second {
                    let mut live = low;
                    let masks = &mut live[Part::Masks as usize];
                    *masks = masks.saturating_sub(mask);
                    out.push(Stage::new(names[FIRST_LAYER], live));
                }
            }
        }
        // Only of the largest of each name is it asked what it is made of.
        for (place, name) in names.iter().enumerate() {
            let tops = found.iter().filter(|(name, _)| *name == place);
            let largest = tops.filter_map(|(_, top)| *top).max_by_key(|top| top.total);
            out.extend(largest.map(|top| Stage::new(name, self.alive(top))));
        }
    }

    /// Where within a stage most is alive, its allocations in both taken from the start on, and back from the end. Both
    /// ways they are of the same kind as far as two layers reach; between those all layers are alike, so that nothing
    /// is larger there.
    fn tops(&self, (a, b): (Span, Span)) -> (Option<Top>, Option<Top>) {
        let (few, more) = (self.few.sizes_of(a), self.more.sizes_of(b));
        let layer = more.len().saturating_sub(few.len());
        let (from_start, to_end) = match a.place {
            Place::Forward => (a.third - a.start, a.end - a.third),
            Place::Loss => (
                few.len().saturating_sub(2 * layer),
                few.len().min(2 * layer),
            ),
            Place::Segment => (few.len(), few.len()),
            // Nothing is given back before the end.
            Place::Optimizer => (0, few.len()),
        };
        // A loss that is not followed by backward is of no layer.
        let to_end = if layer == 0 { few.len() } else { to_end };
        let from_start = alike(few.iter().zip(more)).min(from_start);
        let to_end = alike(few.iter().rev().zip(more.iter().rev())).min(to_end);
        (
            self.top(a.start, b.start, from_start),
            self.top(a.end - to_end, b.end - to_end, to_end),
        )
    }

    fn top(&self, few: usize, more: usize, length: usize) -> Option<Top> {
        let pairs = self.few.totals.get(few..few + length)?.iter();
        let pairs = pairs.zip(self.more.totals.get(more..more + length)?);
        let tops = pairs.enumerate().map(|(at, (one, other))| Top {
            few: few + at,
            more: more + at,
            total: line(*one, *other, self.times),
        });
        // The first of equals.
        tops.max_by_key(|top| (top.total, std::cmp::Reverse(top.few)))
    }

    fn alive(&self, top: Top) -> Live {
        let (few, more) = (self.few.alive(top.few), self.more.alive(top.more));
        std::array::from_fn(|part| line(few[part], more[part], self.times))
    }
}

/// How many pairs are equal from the first on.
fn alike<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>) -> usize {
    pairs.take_while(|(few, more)| few == more).count()
}

/// So many steps above the low end, of all the steps to the high end.
fn partway(low: &Live, high: &Live, steps: u64, of: u64) -> Live {
    std::array::from_fn(|part| {
        let (low, high) = (i128::from(low[part]), i128::from(high[part]));
        let bytes = low + (high - low) * i128::from(steps) / i128::from(of.max(1));
        u64::try_from(bytes).unwrap_or(0)
    })
}
