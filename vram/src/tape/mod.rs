//! A training step written down as allocations: tensors that know only their size, the graph that automatic
//! differentiation keeps of them, and the order in which a framework makes and drops each block.
//! Computes no numbers; what it says of memory follows from shapes and from the rules of PyTorch's engine.

mod engine;
mod log;
mod memory;
mod saved;

pub(crate) use engine::Grads;
pub(crate) use log::{Log, Part};
pub(crate) use memory::{Dtype, Raw, Tensor};
pub(crate) use saved::{Frame, WEIGHT};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What happens to a tensor that backward will need.
#[derive(Clone)]
pub(crate) enum Keep {
    /// It stays on the card.
    OnDevice,
    /// Copied to the host; `weights` too, which a view that is not contiguous makes costly.
    OnHost { weights: bool },
    /// Inside a checkpointed segment: only counted, to be made again.
    Counted(Rc<Frame>),
    /// The segment runs again: each one goes to its frame, and the last ends the run.
    Recomputed(Rc<Frame>),
}

pub(crate) struct Tape {
    pub log: Rc<Log>,
    keep: RefCell<Vec<Keep>>,
    /// The segment has recomputed all that is needed: nothing more is allocated.
    stopped: Cell<bool>,
    next_seq: Cell<u64>,
    /// Autocast's cache of bf16 copies of trained fp32 weights, by parameter.
    pub casts: RefCell<BTreeMap<u32, Tensor>>,
    /// Keys and values that the model's outputs hold.
    pub cache: RefCell<Vec<Raw>>,
    pub autocast: Cell<bool>,
    pub half: Cell<Dtype>,
    /// Gradients of parameters, by parameter.
    pub grads: RefCell<BTreeMap<u32, Raw>>,
    /// Bytes of one BLAS workspace, and which threads (forward, backward) hold one.
    workspace: Cell<u64>,
    handles: RefCell<[Option<Raw>; 2]>,
    pub in_backward: Cell<bool>,
}

impl Tape {
    pub(crate) fn new(workspace: u64) -> Rc<Self> {
        Rc::new(Self {
            log: Rc::new(Log::default()),
            keep: RefCell::new(vec![Keep::OnDevice]),
            stopped: Cell::new(false),
            next_seq: Cell::new(0),
            casts: RefCell::new(BTreeMap::new()),
            cache: RefCell::new(Vec::new()),
            autocast: Cell::new(false),
            half: Cell::new(Dtype::Bf16),
            grads: RefCell::new(BTreeMap::new()),
            workspace: Cell::new(workspace),
            handles: RefCell::new([None, None]),
            in_backward: Cell::new(false),
        })
    }

    /// A new block, unless the segment has stopped.
    pub(crate) fn new_raw(&self, numel: u64, dtype: Dtype) -> Raw {
        if self.stopped.get() {
            return Raw::nothing(numel, dtype);
        }
        Raw::new(&self.log, numel, dtype)
    }

    pub(crate) fn part(&self, part: Part) {
        self.log.part(part);
    }

    /// Runs with another way of keeping tensors for backward.
    pub(crate) fn keeping<T>(&self, keep: Keep, run: impl FnOnce() -> T) -> T {
        self.keep.borrow_mut().push(keep);
        let out = run();
        self.keep.borrow_mut().pop();
        out
    }

    fn keep(&self) -> Keep {
        self.keep.borrow().last().cloned().unwrap_or(Keep::OnDevice)
    }

    /// Whether operations record nodes of the graph now: not while a segment runs again.
    pub(crate) fn records(&self) -> bool {
        !matches!(self.keep.borrow().last(), Some(Keep::Recomputed(_)))
    }

    /// The first matrix product of each thread takes a workspace.
    pub(crate) fn blas(&self) {
        let thread = usize::from(self.in_backward.get());
        let bytes = self.workspace.get();
        if bytes == 0 || self.stopped.get() || self.handles.borrow()[thread].is_some() {
            return;
        }
        let before = self.log.part(Part::Workspace);
        let made = self.new_raw(bytes, Dtype::U8);
        self.log.part(before);
        self.handles.borrow_mut()[thread] = Some(made);
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq.replace(self.next_seq.get() + 1)
    }

    /// Leaves autocast: at nesting level zero its cache goes.
    pub(crate) fn clear_casts(&self) {
        let gone = std::mem::take(&mut *self.casts.borrow_mut());
        drop(gone);
    }
}
