//! Backward: nodes run by the order of their making, latest first, as soon as all gradients for them are there.
//! A gradient that nobody else holds is added to in place; one of another type than the tensor's is cast.

use std::cell::{Cell, RefCell};
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::{Dtype, Part, Raw, Tape, Tensor};

/// Gradients of a node's inputs, or of its outputs.
pub(crate) type Grads = Vec<Option<Raw>>;

type Backward = Box<dyn FnOnce(&Tape, &Grads) -> Grads>;

/// Where a gradient goes: a node and which of its outputs it is for.
#[derive(Clone)]
pub(crate) struct Edge {
    pub node: Rc<Node>,
    pub output: usize,
    pub dtype: Dtype,
}

pub(crate) struct Node {
    seq: u64,
    /// Taken when the node has run, so that a long graph is let go of piece by piece.
    inputs: RefCell<Vec<Option<Edge>>>,
    backward: RefCell<Option<Backward>>,
    /// The parameter or input whose gradient ends here, which the node holds.
    leaf: Option<(u32, Raw)>,
    part: Part,
    waits: Cell<u32>,
    seen: Cell<bool>,
    arrived: RefCell<Grads>,
}

struct Ready(Rc<Node>);

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.0.seq == other.0.seq
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.seq.cmp(&other.0.seq)
    }
}

impl Tape {
    /// Records how to differentiate what was just computed from `inputs`; `backward` is not called if nothing is followed.
    pub(crate) fn node(
        &self,
        inputs: &[&Tensor],
        backward: impl FnOnce(&Tape, &Grads) -> Grads + 'static,
    ) -> Option<Rc<Node>> {
        if !self.records() || !inputs.iter().any(|input| input.grad) {
            return None;
        }
        Some(Rc::new(Node {
            seq: self.next_seq(),
            inputs: RefCell::new(inputs.iter().map(|input| input.edge.clone()).collect()),
            backward: RefCell::new(Some(Box::new(backward))),
            leaf: None,
            part: self.log.now(),
            waits: Cell::new(0),
            seen: Cell::new(false),
            arrived: RefCell::new(Vec::new()),
        }))
    }

    pub(crate) fn output(
        &self,
        raw: Raw,
        node: Option<&Rc<Node>>,
        output: usize,
        grad: bool,
    ) -> Tensor {
        let dtype = raw.dtype;
        let edge = node.map(|node| Edge {
            node: Rc::clone(node),
            output,
            dtype,
        });
        Tensor { raw, edge, grad }
    }

    /// A parameter or input that gathers its gradient.
    pub(crate) fn leaf(&self, raw: Raw, id: u32) -> Tensor {
        let node = Rc::new(Node {
            seq: u64::MAX,
            inputs: RefCell::new(Vec::new()),
            backward: RefCell::new(None),
            leaf: Some((id, raw.clone())),
            part: Part::Gradients,
            waits: Cell::new(0),
            seen: Cell::new(false),
            arrived: RefCell::new(Vec::new()),
        });
        let dtype = raw.dtype;
        Tensor {
            raw,
            edge: Some(Edge {
                node,
                output: 0,
                dtype,
            }),
            grad: true,
        }
    }

    pub(crate) fn backward(&self, root: Tensor) {
        let Some(edge) = root.edge else {
            return;
        };
        drop(root.raw);
        self.in_backward.set(true);
        count_waits(&edge.node);
        let first = self.new_raw(1, Dtype::Fp32);
        let mut ready = BinaryHeap::new();
        put(&edge, first, self);
        ready.push(Ready(edge.node));
        while let Some(Ready(node)) = ready.pop() {
            self.step(&node, &mut ready);
        }
        self.in_backward.set(false);
    }

    fn step(&self, node: &Rc<Node>, ready: &mut BinaryHeap<Ready>) {
        let arrived = node.arrived.take();
        node.seen.set(false);
        if let Some((id, _)) = &node.leaf {
            self.gather(*id, arrived);
            return;
        }
        let Some(backward) = node.backward.borrow_mut().take() else {
            return;
        };
        self.part(node.part);
        let made = backward(self, &arrived);
        let mut out: Vec<(Edge, Option<Raw>)> = Vec::with_capacity(made.len());
        for (edge, grad) in node.inputs.take().into_iter().zip(made) {
            if let Some(edge) = edge {
                let grad = grad.map(|grad| self.cast_raw(grad, edge.dtype));
                out.push((edge, grad));
            }
        }
        drop(arrived);
        for (edge, grad) in out {
            if let Some(grad) = grad {
                put(&edge, grad, self);
            }
            let waits = edge.node.waits.get() - 1;
            edge.node.waits.set(waits);
            if waits == 0 {
                ready.push(Ready(Rc::clone(&edge.node)));
            }
        }
    }

    fn gather(&self, id: u32, mut arrived: Grads) {
        let Some(grad) = arrived.pop().flatten() else {
            return;
        };
        let mut grads = self.grads.borrow_mut();
        if grads.contains_key(&id) {
            // In place on the gradient that is there.
            return;
        }
        if let Some(number) = grad.number() {
            self.log.relabel(number, Part::Gradients);
        }
        grads.insert(id, grad);
    }

    pub(crate) fn cast_raw(&self, raw: Raw, dtype: Dtype) -> Raw {
        if raw.dtype == dtype {
            return raw;
        }
        let heads_first = raw.heads_first;
        Raw {
            heads_first,
            ..self.new_raw(raw.numel, dtype)
        }
    }
}

fn put(edge: &Edge, grad: Raw, tape: &Tape) {
    let mut arrived = edge.node.arrived.borrow_mut();
    if arrived.len() <= edge.output {
        arrived.resize_with(edge.output + 1, || None);
    }
    arrived[edge.output] = Some(match arrived[edge.output].take() {
        None => grad,
        Some(old) if old.is_sole() => old,
        Some(old) => Raw {
            heads_first: old.heads_first,
            ..tape.new_raw(old.numel, old.dtype)
        },
    });
}

/// How many gradients each node of the graph will get.
fn count_waits(root: &Rc<Node>) {
    let mut stack = vec![Rc::clone(root)];
    root.seen.set(true);
    while let Some(node) = stack.pop() {
        for edge in node.inputs.borrow().iter().flatten() {
            edge.node.waits.set(edge.node.waits.get() + 1);
            if !edge.node.seen.replace(true) {
                stack.push(Rc::clone(&edge.node));
            }
        }
    }
}
