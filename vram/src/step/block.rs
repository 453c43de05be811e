//! One decoder block: norms, attention, MLP, residuals, in the order each family has them.

use crate::architecture::Family;
use crate::step::Plan;
use crate::step::linear::Linear;
use crate::tape::{Dtype, Part, Raw, Tape, Tensor};

/// The linear layers of one block.
#[derive(Clone)]
pub(crate) struct Block {
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    pub o: Linear,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
    /// Phi 3 has one matrix for q, k, v and one for gate and up.
    pub qkv: Option<Linear>,
    pub gate_up: Option<Linear>,
}

/// What all blocks of one forward pass share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub cos: Raw,
    pub sin: Raw,
    pub mask: Option<Raw>,
}

impl Block {
    pub(crate) fn forward(&self, tape: &Tape, plan: &Plan, x: &Tensor, shared: &Shared) -> Tensor {
        let gemma = plan.arch.family.is_gemma();
        // As in the model's code, a value that is assigned anew lets the old one go at once.
        let normed = norm(tape, plan, x, plan.arch.hidden);
        let mut attended = self.attend(tape, plan, normed, shared);
        if gemma {
            attended = norm(tape, plan, &attended, plan.arch.hidden);
        }
        tape.part(Part::Residual);
        let middle = tape.add(x, &attended);
        drop(attended);
        let mut fed = norm(tape, plan, &middle, plan.arch.hidden);
        fed = self.feed(tape, plan, &fed);
        if gemma {
            fed = norm(tape, plan, &fed, plan.arch.hidden);
        }
        tape.part(Part::Residual);
        tape.add(&middle, &fed)
    }

    fn attend(&self, tape: &Tape, plan: &Plan, x: Tensor, shared: &Shared) -> Tensor {
        let (mut q, mut k, v) = self.project(tape, plan, &x);
        tape.part(Part::Attention);
        if plan.arch.family == Family::Gemma3 {
            let width = plan.arch.head_dim;
            q = norm(tape, plan, &tape.as_heads(&q), width);
            k = norm(tape, plan, &tape.as_heads(&k), width);
        }
        tape.part(Part::Attention);
        let v = tape.as_heads(&v);
        let rotated_q = tape.rotate(&q, &shared.cos, &shared.sin);
        let mut rotated_k = tape.rotate(&k, &shared.cos, &shared.sin);
        drop((q, k));
        let mut v = v;
        if plan.use_cache {
            rotated_k = tape.cached(rotated_k);
            v = tape.cached(v);
        }
        let mask = shared.mask.as_ref();
        let out = tape.attention(plan, &rotated_q, &rotated_k, &v, mask);
        let projected = self.o.forward(tape, plan, &out, Part::Attention);
        drop((out, rotated_q, rotated_k, v, x));
        projected
    }

    fn project(&self, tape: &Tape, plan: &Plan, x: &Tensor) -> (Tensor, Tensor, Tensor) {
        let width = plan.arch.head_dim;
        if let Some(qkv) = &self.qkv {
            let all = qkv.forward(tape, plan, x, Part::Attention);
            let rows = plan.tokens();
            let (q, kv) = (rows * plan.arch.q_width(), rows * plan.arch.kv_width());
            let parts = [q, kv, kv].map(|numel| tape.slice(&all, numel));
            let [q, k, v] = parts;
            return (tape.as_heads(&q), tape.as_heads(&k), v);
        }
        let normed = |y: Tensor| match plan.arch.family {
            Family::Qwen3 => norm(tape, plan, &tape.as_heads(&y), width),
            Family::Gemma3 => y,
            _ => tape.as_heads(&y),
        };
        let q = normed(self.q.forward(tape, plan, x, Part::Attention));
        let k = normed(self.k.forward(tape, plan, x, Part::Attention));
        let v = self.v.forward(tape, plan, x, Part::Attention);
        (q, k, v)
    }

    /// The MLP, in chunks of tokens where the recipe says so.
    fn feed(&self, tape: &Tape, plan: &Plan, x: &Tensor) -> Tensor {
        let Some(chunk) = plan.chunk.filter(|chunk| *chunk < plan.seq) else {
            return self.mlp(tape, plan, x);
        };
        let hidden = plan.arch.hidden;
        let mut sizes = vec![chunk * plan.batch * hidden; (plan.seq / chunk) as usize];
        if !plan.seq.is_multiple_of(chunk) {
            sizes.push(plan.seq % chunk * plan.batch * hidden);
        }
        let parts = tape.split(x, &sizes);
        let done: Vec<Tensor> = parts
            .iter()
            .map(|part| self.mlp(tape, plan, part))
            .collect();
        tape.part(Part::Mlp);
        tape.cat(&done)
    }

    fn mlp(&self, tape: &Tape, plan: &Plan, x: &Tensor) -> Tensor {
        let multiplied = if let Some(gate_up) = &self.gate_up {
            let both = gate_up.forward(tape, plan, x, Part::Mlp);
            let halves = [both.numel() / 2; 2];
            let parts = tape.split(&both, &halves);
            let acted = tape.activation(&parts[0]);
            tape.mul(&parts[1], &acted)
        } else {
            let gate = self.gate.forward(tape, plan, x, Part::Mlp);
            tape.part(Part::Mlp);
            let acted = tape.activation(&gate);
            drop(gate);
            let up = self.up.forward(tape, plan, x, Part::Mlp);
            tape.part(Part::Mlp);
            tape.mul(&acted, &up)
        };
        self.down.forward(tape, plan, &multiplied, Part::Mlp)
    }
}

/// Root mean square norm over rows of `width`, computed in fp32.
pub(crate) fn norm(tape: &Tape, plan: &Plan, x: &Tensor, width: u64) -> Tensor {
    tape.part(Part::Norms);
    let (stored, back_to) = (plan.norm_dtype(), x.dtype());
    if plan.arch.family.is_gemma() {
        // x.float(), times the inverse root, times (1 + weight) in fp32, back to the type of x.
        let normed = {
            let wide = tape.to(x, Dtype::Fp32);
            let inverse = tape.inverse_rms(&wide, width);
            tape.mul_rows(&wide, &inverse)
        };
        let raised = tape.new_raw(width, Dtype::Fp32);
        let weighted = tape.mul_constant(&normed, &raised, false);
        drop((raised, normed));
        return tape.to(&weighted, back_to);
    }
    // weight * (x in fp32 times the inverse root, back in the type of x): an fp32 weight makes the product fp32.
    let wide = tape.to(x, Dtype::Fp32);
    let inverse = tape.inverse_rms(&wide, width);
    let normed = tape.mul_rows(&wide, &inverse);
    drop((inverse, wide));
    let narrow = tape.to(&normed, back_to);
    tape.mul_constant(&narrow, &Raw::nothing(width, stored), true)
}
