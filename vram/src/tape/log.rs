//! The events of a step in order, each allocation with the part of the step that it belongs to.
//! Keeps no blocks alive and knows no allocator.

use std::cell::{Cell, RefCell};

use crate::stream::{Event, Stream};

/// What a block is for. The order is that of an explanation: what is always there first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Part {
    #[default]
    Other,
    Weights,
    UnquantisedWeights,
    Adapters,
    OptimizerState,
    Gradients,
    Checkpoints,
    Workspace,
    Masks,
    Norms,
    Attention,
    Mlp,
    LoraActivations,
    AutocastCopies,
    Dequantised,
    Dropout,
    Dora,
    Residual,
    Logits,
    Loss,
    OffloadCopies,
    Inputs,
}

impl Part {
    pub(crate) const ALL: [Self; 22] = [
        Self::Other,
        Self::Weights,
        Self::UnquantisedWeights,
        Self::Adapters,
        Self::OptimizerState,
        Self::Gradients,
        Self::Checkpoints,
        Self::Workspace,
        Self::Masks,
        Self::Norms,
        Self::Attention,
        Self::Mlp,
        Self::LoraActivations,
        Self::AutocastCopies,
        Self::Dequantised,
        Self::Dropout,
        Self::Dora,
        Self::Residual,
        Self::Logits,
        Self::Loss,
        Self::OffloadCopies,
        Self::Inputs,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Weights => "weights",
            Self::UnquantisedWeights => "unquantised weights",
            Self::Adapters => "adapters",
            Self::OptimizerState => "optimizer state",
            Self::Gradients => "adapter gradients",
            Self::Checkpoints => "checkpoints",
            Self::Workspace => "blas workspaces",
            Self::Masks => "attention masks",
            Self::Norms => "norm activations",
            Self::Attention => "attention activations",
            Self::Mlp => "mlp activations",
            Self::LoraActivations => "adapter activations",
            Self::AutocastCopies => "autocast copies of adapters",
            Self::Dequantised => "dequantised weights",
            Self::Dropout => "dropout masks",
            Self::Dora => "dora",
            Self::Residual => "residual stream",
            Self::Logits => "logits",
            Self::Loss => "loss",
            Self::OffloadCopies => "copies for offload",
            Self::Inputs => "inputs",
        }
    }
}

#[derive(Default)]
pub(crate) struct Log {
    events: RefCell<Vec<Event>>,
    allocs: Cell<u32>,
    part: Cell<Part>,
    /// Where in the events each allocation stands, so that it can be told to be of another part.
    places: RefCell<Vec<u32>>,
}

impl Log {
    /// Sets the part of the allocations to come; returns the one before.
    pub(crate) fn part(&self, part: Part) -> Part {
        self.part.replace(part)
    }

    pub(crate) fn now(&self) -> Part {
        self.part.get()
    }

    pub(crate) fn alloc(&self, bytes: u64) -> u32 {
        let number = self.allocs.replace(self.allocs.get() + 1);
        let mut events = self.events.borrow_mut();
        self.places.borrow_mut().push(events.len() as u32);
        let label = u32::from(self.part.get() as u8);
        events.push(Event::Alloc { bytes, label });
        number
    }

    pub(crate) fn free(&self, alloc: u32) {
        self.events.borrow_mut().push(Event::Free { alloc });
    }

    pub(crate) fn relabel(&self, alloc: u32, part: Part) {
        let place = self.places.borrow()[alloc as usize];
        if let Event::Alloc { label, .. } = &mut self.events.borrow_mut()[place as usize] {
            *label = u32::from(part as u8);
        }
    }

    pub(crate) fn push(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    pub(crate) fn take(&self) -> Stream {
        Stream {
            events: self.events.take(),
            labels: Part::ALL
                .iter()
                .map(|part| part.name().to_owned())
                .collect(),
            real_reserved: None,
        }
    }
}
