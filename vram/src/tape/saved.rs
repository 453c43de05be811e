//! Tensors saved for backward: kept, copied to the host, or made again by running their segment once more.
//! A segment stops as soon as the last tensor that backward needs is there again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Keep, Part, Raw, Tape, Tensor};
use crate::step::SEGMENT;
use crate::stream::Event;

/// What a segment computes of its input.
pub(crate) type Segment = Rc<dyn Fn(&Tape, &Tensor) -> Tensor>;

/// One checkpointed segment of one forward pass.
pub(crate) struct Frame {
    input: RefCell<Option<Saved>>,
    run: Segment,
    expected: Cell<usize>,
    slots: RefCell<Vec<Option<Raw>>>,
    done: Cell<bool>,
}

pub(crate) enum Saved {
    Kept(Raw),
    Host {
        numel: u64,
        dtype: super::Dtype,
    },
    Slot(Rc<Frame>, usize),
    /// While a segment runs again its nodes are not recorded: the frame has it.
    Elsewhere,
}

/// Says of a saved tensor that it is a parameter.
pub(crate) const WEIGHT: bool = true;

impl Tape {
    pub(crate) fn save(&self, raw: &Raw) -> Saved {
        self.save_as(raw, false, false)
    }

    /// `transposed`: a view that is not contiguous, which a copy to the host first makes contiguous on the card.
    pub(crate) fn save_as(&self, raw: &Raw, weight: bool, transposed: bool) -> Saved {
        match self.keep() {
            Keep::OnDevice => Saved::Kept(raw.clone()),
            Keep::OnHost { weights: false } if weight => Saved::Kept(raw.clone()),
            Keep::OnHost { .. } => {
                if transposed {
                    let before = self.log.part(Part::OffloadCopies);
                    drop(self.new_raw(raw.numel, raw.dtype));
                    self.log.part(before);
                }
                Saved::Host {
                    numel: raw.numel,
                    dtype: raw.dtype,
                }
            }
            Keep::Counted(frame) => {
                let at = frame.expected.replace(frame.expected.get() + 1);
                Saved::Slot(frame, at)
            }
            Keep::Recomputed(frame) => {
                let mut slots = frame.slots.borrow_mut();
                if slots.len() < frame.expected.get() {
                    slots.push(Some(raw.clone()));
                    if slots.len() == frame.expected.get() {
                        self.stopped.set(true);
                    }
                }
                Saved::Elsewhere
            }
        }
    }

    pub(crate) fn unpack(&self, saved: Saved) -> Raw {
        match saved {
            Saved::Kept(raw) => raw,
            Saved::Host { numel, dtype } => {
                let before = self.log.part(Part::OffloadCopies);
                let back = self.new_raw(numel, dtype);
                self.log.part(before);
                back
            }
            Saved::Slot(frame, at) => {
                if !frame.done.replace(true) {
                    self.run_again(&frame);
                }
                let slot = frame.slots.borrow_mut().get_mut(at).and_then(Option::take);
                slot.unwrap_or_else(|| Raw::nothing(0, super::Dtype::U8))
            }
            Saved::Elsewhere => Raw::nothing(0, super::Dtype::U8),
        }
    }

    /// Runs `run` as a checkpointed segment: only its input is kept.
    pub(crate) fn checkpointed(&self, input: &Tensor, run: Segment) -> Tensor {
        let frame = Rc::new(Frame {
            input: RefCell::new(Some(self.save(&input.raw))),
            run: Rc::clone(&run),
            expected: Cell::new(0),
            slots: RefCell::new(Vec::new()),
            done: Cell::new(false),
        });
        if let Some(number) = input.raw.number() {
            self.log.relabel(number, Part::Checkpoints);
        }
        self.keeping(Keep::Counted(frame), || run(self, input))
    }

    fn run_again(&self, frame: &Rc<Frame>) {
        let Some(input) = frame.input.borrow_mut().take() else {
            return;
        };
        let before = self.log.now();
        self.log.push(Event::Mark(SEGMENT));
        let input = Tensor {
            raw: self.unpack(input),
            edge: None,
            grad: true,
        };
        let out = self.keeping(Keep::Recomputed(Rc::clone(frame)), || {
            (frame.run)(self, &input)
        });
        self.stopped.set(false);
        // Autocast was entered for the segment; in the engine's own thread leaving it clears the cache.
        self.clear_casts();
        drop(out);
        self.log.part(before);
    }
}
