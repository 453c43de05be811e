//! Where a model lands: whole layers go to cards in proportion to their room, as llama.cpp splits them, the output
//! matrix counting as one more. Each card has buffers of its own.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Serving;
use super::buffers::{Seat, of_llama_cpp, of_transformers};
use super::cache::{layer_cache, layer_state};
use super::weights::{Weights, weights};
use crate::architecture::Architecture;
use crate::{Bytes, Mark, Mode, Term, Workload};

/// A bake whose model is known.
pub struct Bake<'w> {
    architecture: &'w Architecture,
    serving: Serving,
    context_len: u64,
    weights: Weights,
}

/// What landed where on cards of which each has its own room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Bytes on each card, in their order.
    pub cards: Vec<Bytes>,
    /// What is left for the CPU; above zero the run offloads, several times slower.
    pub on_cpu: Bytes,
}

impl Split {
    #[must_use]
    pub fn offloads(&self) -> bool {
        self.on_cpu > Bytes::ZERO
    }
}

impl<'w> Bake<'w> {
    /// `None` where the model's shape or the length of the context is not known.
    #[must_use]
    pub fn of(workload: &'w Workload) -> Option<Self> {
        let recipe = workload.recipe.as_ref()?;
        let architecture = recipe.architecture()?;
        (workload.mode == Mode::Bake).then_some(())?;
        Some(Self {
            architecture,
            serving: workload.serving,
            context_len: workload.context_len?,
            weights: weights(architecture, recipe, &workload.serving),
        })
    }

    /// The terms of each of its cards, which are taken to be equal.
    #[must_use]
    pub fn cards(&self) -> Vec<Vec<Term>> {
        let cards = usize::try_from(self.serving.cards.max(1)).unwrap_or(1);
        let shares = self.shares(&vec![Bytes(1); cards]);
        let terms = shares.iter().enumerate();
        terms
            .map(|(at, layers)| self.terms(layers, seat(at, cards), at + 1 == cards))
            .collect()
    }

    /// The terms of the card that has to hold most: a scheduler asks every device for this much.
    #[must_use]
    pub fn fullest(&self) -> Vec<Term> {
        let cards = self.cards().into_iter();
        cards.max_by_key(|terms| total(terms)).unwrap_or_default()
    }

    /// What stays in the host's memory whatever room the cards have.
    #[must_use]
    pub fn on_host(&self) -> Bytes {
        Bytes(self.weights.host)
    }

    /// Over cards with these rooms, of which each is shared with nobody else.
    #[must_use]
    pub fn split(&self, rooms: &[Bytes]) -> Split {
        let mut on_cpu = Bytes::ZERO;
        let shares = self.shares(rooms);
        let mut cards = Vec::with_capacity(rooms.len());
        for (at, layers) in shares.into_iter().enumerate() {
            let (seat, is_last) = (seat(at, rooms.len()), at + 1 == rooms.len());
            if layers.is_empty() && !is_last {
                cards.push(Bytes::ZERO);
                continue;
            }
            let whole = total(&self.terms(&layers, seat, is_last));
            // The first layers are the ones that are left to the CPU.
            let mut kept = layers;
            let mut used = whole;
            while used > rooms[at] && !kept.is_empty() {
                kept.start += 1;
                used = total(&self.terms(&kept, seat, is_last));
            }
            if used > rooms[at] {
                used = Bytes::ZERO;
            }
            on_cpu += whole.saturating_sub(used);
            cards.push(used);
        }
        Split { cards, on_cpu }
    }

    /// The layers of each card. A layer goes to the first card whose share of the whole room reaches beyond it.
    fn shares(&self, rooms: &[Bytes]) -> Vec<Range<u64>> {
        let layers = self.architecture.layers;
        let units = u128::from(layers) + 1;
        let whole: u128 = rooms.iter().map(|room| u128::from(room.0)).sum();
        let (mut before, mut start) = (0_u128, 0_u64);
        let mut shares = Vec::with_capacity(rooms.len());
        for room in rooms {
            before += u128::from(room.0);
            let end = (before * units)
                .div_ceil(whole.max(1))
                .min(u128::from(layers)) as u64;
            shares.push(start..end.max(start));
            start = end.max(start);
        }
        shares
    }

    fn terms(&self, layers: &Range<u64>, seat: Seat, is_last: bool) -> Vec<Term> {
        let share = |of: u64| {
            let count = u128::from(layers.end - layers.start);
            (u128::from(of) * count / u128::from(self.architecture.layers.max(1))) as u64
        };
        let output = if is_last { self.weights.output } else { 0 };
        let blocks = share(self.weights.blocks).saturating_add(output);
        let mut terms = vec![term("weights", blocks)];
        if self.weights.adapters > 0 {
            terms.push(term("adapters", share(self.weights.adapters)));
        }
        let each = |of: &dyn Fn(u64) -> u64| {
            let sum = layers.clone().map(of).fold(0, u64::saturating_add);
            sum.saturating_mul(self.serving.parallel)
        };
        let quant = self.serving.kv_cache;
        let cache = |layer| layer_cache(self.architecture, layer, self.context_len, quant);
        terms.push(term("kv cache", each(&cache)));
        let state = each(&|layer| layer_state(self.architecture, layer));
        if state > 0 {
            terms.push(term("recurrent state", state));
        }
        terms.push(term("compute buffers", self.buffers(seat)));
        terms
    }

    fn buffers(&self, seat: Seat) -> u64 {
        let (context, parallel) = (self.context_len, self.serving.parallel);
        match self.serving.gguf {
            Some(_) => of_llama_cpp(self.architecture, context, parallel, seat),
            None => of_transformers(self.architecture, context, parallel),
        }
    }
}

fn seat(at: usize, cards: usize) -> Seat {
    match (at, cards) {
        (_, 1) => Seat::Alone,
        (0, _) => Seat::First,
        _ => Seat::Later,
    }
}

fn total(terms: &[Term]) -> Bytes {
    terms.iter().map(|term| term.bytes).sum()
}

fn term(name: &str, bytes: u64) -> Term {
    Term {
        name: name.to_owned(),
        bytes: Bytes(bytes),
        mark: Mark::Computed,
    }
}
