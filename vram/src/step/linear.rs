//! A linear layer of the base model, quantised or not, with its adapter as PEFT runs it.
//! 4-bit weights are made whole for each product and let go; the adapter's branch runs in half precision under
//! autocast and in fp32 without.

use crate::recipe::Quant;
use crate::step::Plan;
use crate::tape::{Dtype, Grads, Part, Raw, Tape, Tensor};

/// Trained parameters of one adapted layer.
#[derive(Clone)]
pub(crate) struct Adapter {
    pub id: u32,
    pub a: Tensor,
    pub b: Tensor,
    pub magnitude: Option<Tensor>,
}

#[derive(Clone)]
pub(crate) struct Linear {
    pub name: &'static str,
    pub inputs: u64,
    pub outputs: u64,
    pub adapter: Option<Adapter>,
}

impl Linear {
    pub(crate) fn numel(&self) -> u64 {
        self.inputs * self.outputs
    }

    /// The layer on `x`; activations are counted to `part`.
    pub(crate) fn forward(&self, tape: &Tape, plan: &Plan, x: &Tensor, part: Part) -> Tensor {
        tape.part(part);
        let rows = x.numel() / self.inputs;
        let base = if plan.quant == Quant::Int8 {
            self.eight_bit(tape, x, rows)
        } else if plan.quant.is_kbit() {
            let made = self.dequantised(tape, plan, x, rows);
            match self.adapter {
                // PEFT copies what the frozen layer gave before adding to it.
                Some(_) => tape.copy(&made),
                None => made,
            }
        } else {
            self.plain(tape, plan, x, rows)
        };
        let Some(adapter) = &self.adapter else {
            return base;
        };
        // PEFT asks whether autocast is on only beside 4-bit and 8-bit layers; elsewhere the input goes to the
        // adapter's fp32 first, and autocast makes a copy of its own of it.
        let as_it_is = tape.autocast.get() && plan.quant.is_kbit();
        let branch_in = if as_it_is {
            x.clone()
        } else {
            tape.to(x, Dtype::Fp32)
        };
        if adapter.magnitude.is_some() {
            return self.dora(tape, plan, adapter, x, branch_in, base, part);
        }
        let branch = self.branch(tape, plan, adapter, branch_in, rows);
        tape.part(part);
        let branch = if tape.autocast.get() {
            branch
        } else {
            tape.to(&branch, x.dtype())
        };
        tape.add(&base, &branch)
    }

    /// `B(A(dropout(x)))`, scaled.
    fn branch(&self, tape: &Tape, plan: &Plan, adapter: &Adapter, x: Tensor, rows: u64) -> Tensor {
        tape.part(Part::LoraActivations);
        let x = if plan.dropout { tape.dropout(&x) } else { x };
        let down = trained(tape, &x, &adapter.a, adapter.id * 3, rows * plan.rank);
        drop(x);
        let up = trained(
            tape,
            &down,
            &adapter.b,
            adapter.id * 3 + 1,
            rows * self.outputs,
        );
        drop(down);
        tape.scale(&up)
    }

    fn plain(&self, tape: &Tape, plan: &Plan, x: &Tensor, rows: u64) -> Tensor {
        let half = if tape.autocast.get() {
            tape.to(x, tape.half.get())
        } else {
            x.clone()
        };
        // Autocast copies a frozen fp32 weight for each product, and backward needs the copy.
        let copied = plan.quant == Quant::Fp32 && half.dtype() != Dtype::Fp32;
        let weight = Tensor::constant(if copied {
            tape.new_raw(self.numel(), half.dtype())
        } else {
            Raw::nothing(self.numel(), half.dtype())
        });
        tape.linear(&half, &weight, rows * self.outputs)
    }

    /// LLM.int8() with its threshold, for inputs without outliers: the input in fp16 and then in bytes, a product of
    /// whole numbers, and the result in the input's type. The input itself is kept where no hook sees it.
    fn eight_bit(&self, tape: &Tape, x: &Tensor, rows: u64) -> Tensor {
        let (made, weight) = (rows * self.outputs, self.numel());
        let half = (x.dtype() != Dtype::Fp16).then(|| tape.new_raw(x.numel(), Dtype::Fp16));
        let packed = (
            tape.new_raw(rows, Dtype::Fp32),
            tape.new_raw(x.numel(), Dtype::U8),
        );
        let size = tape.new_raw(x.numel(), Dtype::Fp16);
        let large = tape.new_raw(x.numel(), Dtype::U8);
        drop(size);
        drop((large, half));
        let whole = tape.new_raw(made, Dtype::Fp32);
        let mut out = tape.new_raw(made, Dtype::Fp16);
        if x.dtype() != Dtype::Fp16 {
            out = tape.new_raw(made, x.dtype());
        }
        drop((whole, packed));
        let (kept, dtype, to_input) = (x.raw.clone(), x.dtype(), x.numel());
        let node = tape.node(&[x], move |tape, _| {
            let before = tape.log.part(Part::Dequantised);
            let weight = tape.new_raw(weight, dtype);
            tape.log.part(before);
            let made = tape.new_raw(to_input, dtype);
            tape.blas();
            drop((weight, kept));
            vec![Some(made)]
        });
        tape.output(out, node.as_ref(), 0, x.grad)
    }

    fn dequantised(&self, tape: &Tape, plan: &Plan, x: &Tensor, rows: u64) -> Tensor {
        let half = tape.half.get();
        let (numel, double) = (self.numel(), plan.double_quant);
        let made = {
            let input = tape.to(x, half);
            let before = tape.log.part(Part::Dequantised);
            let whole = whole_weight(tape, numel, double, half, true);
            tape.log.part(before);
            let out = tape.new_raw(rows * self.outputs, half);
            tape.blas();
            drop(whole);
            let to_input = input.numel();
            let node = tape.node(&[&input], move |tape, grads| {
                let before = tape.log.part(Part::Dequantised);
                let (scales, weight) = whole_weight(tape, numel, double, half, false);
                drop(scales);
                tape.log.part(before);
                let made = tape.new_raw(to_input, half);
                tape.blas();
                drop(weight);
                let _ = grads;
                vec![Some(made)]
            });
            tape.output(out, node.as_ref(), 0, input.grad)
        };
        tape.to(&made, x.dtype())
    }
}

/// The weight in half precision and the scales it is made from (nested ones first, where they are nested).
fn whole_weight(
    tape: &Tape,
    numel: u64,
    double: bool,
    half: Dtype,
    forward: bool,
) -> (Vec<Raw>, Raw) {
    let mut scales = Vec::new();
    if double {
        // Forward adds the offset to the scales in a second block, backward in place.
        for _ in 0..if forward { 2 } else { 1 } {
            scales.push(tape.new_raw(numel.div_ceil(64), Dtype::Fp32));
        }
        scales.reverse();
    }
    (scales, tape.new_raw(numel, half))
}

/// A product with a trained weight; under autocast with its half-precision copy, made once and cached.
pub(crate) fn trained(tape: &Tape, x: &Tensor, weight: &Tensor, id: u32, out: u64) -> Tensor {
    if !tape.autocast.get() {
        return tape.linear(x, weight, out);
    }
    let weight = cast_weight(tape, weight, id);
    let x = tape.to(x, tape.half.get());
    tape.linear(&x, &weight, out)
}

pub(crate) fn cast_weight(tape: &Tape, weight: &Tensor, id: u32) -> Tensor {
    if let Some(cached) = tape.casts.borrow().get(&id) {
        return cached.clone();
    }
    let before = tape.log.part(Part::AutocastCopies);
    let cast = tape.to(weight, tape.half.get());
    tape.log.part(before);
    tape.casts.borrow_mut().insert(id, cast.clone());
    cast
}

/// One gradient that reaches a node, if any.
pub(crate) fn one(grads: &Grads) -> Raw {
    grads
        .first()
        .cloned()
        .flatten()
        .unwrap_or_else(|| Raw::nothing(0, Dtype::Fp32))
}
