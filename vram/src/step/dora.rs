//! DoRA's extra work on one layer, as PEFT does it: the weight made whole in the input's type, the adapter's product
//! as a matrix of the weight's size, its norm, and two more products of the activations' size.

use crate::step::Plan;
use crate::step::linear::{Adapter, Linear, cast_weight, one, trained};
use crate::tape::{Dtype, Part, Raw, Tape, Tensor};

impl Linear {
    #[expect(clippy::too_many_arguments, reason = "one call, in Linear::forward")]
    pub(crate) fn dora(
        &self,
        tape: &Tape,
        plan: &Plan,
        adapter: &Adapter,
        x: &Tensor,
        branch_in: Tensor,
        base: Tensor,
        part: Part,
    ) -> Tensor {
        tape.part(Part::Dora);
        let rows = x.numel() / self.inputs;
        let (weight_norm, held) = self.weight_norm(tape, plan, adapter, branch_in.dtype());
        // mag_norm_scale = magnitude / weight_norm
        let ratio = tape.new_raw(self.outputs, Dtype::Fp32);
        let saved_norm = tape.save(&weight_norm);
        drop((saved_norm, held, weight_norm));
        let branch_in = if plan.dropout {
            tape.dropout(&branch_in)
        } else {
            branch_in
        };
        let down = trained(
            tape,
            &branch_in,
            &adapter.a,
            adapter.id * 3,
            rows * plan.rank,
        );
        let up = trained(
            tape,
            &down,
            &adapter.b,
            adapter.id * 3 + 1,
            rows * self.outputs,
        );
        drop(down);
        // (mag_norm_scale - 1) * base + mag_norm_scale * lora * scaling
        let ratio = Tensor {
            raw: ratio,
            edge: None,
            grad: true,
        };
        let first = self.by_ratio(tape, &base, &ratio);
        let second = self.by_ratio(tape, &up, &ratio);
        drop(up);
        let scaled = tape.scale(&second);
        drop(second);
        let extra = tape.add(&first, &scaled);
        drop((first, scaled));
        tape.part(part);
        let out = tape.add(&base, &extra);
        // Beside 4-bit layers and under autocast PEFT does not cast back: what follows is in fp32 from here on.
        if tape.autocast.get() && plan.quant.is_kbit() {
            out
        } else {
            tape.to(&out, x.dtype())
        }
    }

    /// Activations times one trained number for each output: the product is in fp32 and needs both sides again.
    fn by_ratio(&self, tape: &Tape, x: &Tensor, ratio: &Tensor) -> Tensor {
        let saved_x = tape.save(&x.raw);
        let saved_ratio = tape.save(&ratio.raw);
        let raw = tape.new_raw(x.numel(), Dtype::Fp32);
        let outputs = self.outputs;
        let node = tape.node(&[x, ratio], move |tape, grads| {
            let grad = one(grads);
            let (x, ratio) = (tape.unpack(saved_x), tape.unpack(saved_ratio));
            let to_x = tape.new_raw(grad.numel, Dtype::Fp32);
            let product = tape.new_raw(grad.numel, Dtype::Fp32);
            let to_ratio = tape.new_raw(outputs, Dtype::Fp32);
            drop((product, x, ratio));
            vec![Some(to_x), Some(to_ratio)]
        });
        tape.output(raw, node.as_ref(), 0, true)
    }

    /// Norm of the base weight plus the adapter's product; what of it stays until the caller is done.
    fn weight_norm(
        &self,
        tape: &Tape,
        plan: &Plan,
        adapter: &Adapter,
        dtype: Dtype,
    ) -> (Raw, Vec<Raw>) {
        let half = tape.half.get();
        let wide = if tape.autocast.get() {
            half
        } else {
            Dtype::Fp32
        };
        // x_eye, A(x_eye), B(A(x_eye)).
        let eye = tape.new_raw(self.inputs * self.inputs, Dtype::Fp32);
        let (a, b) = (
            cast_weight(tape, &adapter.a, adapter.id * 3),
            cast_weight(tape, &adapter.b, adapter.id * 3 + 1),
        );
        let eye_cast = (wide != Dtype::Fp32).then(|| tape.new_raw(self.inputs * self.inputs, wide));
        let narrow = tape.new_raw(self.inputs * plan.rank, wide);
        let mut product = tape.new_raw(self.numel(), wide);
        drop((narrow, eye_cast, eye, a, b));
        if !plan.quant.is_kbit() && wide != dtype {
            product = tape.new_raw(self.numel(), dtype);
        }
        // The base weight in the input's type, and with the product added.
        let mut base = if plan.quant.is_kbit() {
            tape.new_raw(self.numel(), half)
        } else {
            Raw::nothing(self.numel(), plan.half)
        };
        if dtype != base.dtype {
            base = tape.new_raw(self.numel(), dtype);
        }
        let scaled = tape.new_raw(self.numel(), product.dtype);
        let sum = tape.new_raw(self.numel(), base.dtype.promoted(product.dtype));
        drop(scaled);
        let norm = tape.new_raw(self.outputs, sum.dtype);
        drop(sum);
        (norm, vec![product, base])
    }
}
