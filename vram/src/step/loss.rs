//! The output matrix and the loss: logits of the response or of everything, cross entropy in fp32, whole or in chunks.

use crate::architecture::Family;
use crate::step::linear::one;
use crate::step::{Held, Plan};
use crate::tape::{Dtype, Part, Raw, Tape, Tensor};

/// The loss, and what the caller still holds of the model's outputs during backward.
pub(crate) struct Loss {
    pub loss: Tensor,
    pub held: Vec<Tensor>,
}

pub(crate) fn loss(tape: &Tape, plan: &Plan, hidden: Tensor, head: &Raw) -> Loss {
    tape.part(Part::Logits);
    let (vocab, width) = (plan.arch.vocab, plan.arch.hidden);
    if let Some(chunk) = plan.chunked_loss {
        return in_chunks(tape, plan, hidden, head, chunk);
    }
    if !plan.logits_to_keep {
        let logits = output(tape, &hidden, head, plan.tokens() * vocab);
        let logits = bent(tape, plan, logits);
        drop(hidden);
        let wide = tape.to(&logits, Dtype::Fp32);
        let padded = tape.new_raw(plan.batch * (plan.seq + 1), Dtype::I64);
        let loss = cross_entropy(tape, &wide);
        drop(padded);
        let held = match plan.held {
            Held::LossInput => vec![wide],
            Held::Outputs => vec![logits],
            Held::Nothing | Held::Response => Vec::new(),
        };
        return Loss { loss, held };
    }
    // One more than the response: the last is not predicted from.
    let kept = plan.batch * (plan.response + 1).min(plan.seq);
    let last = if kept < plan.tokens() {
        tape.slice(&hidden, kept * width)
    } else {
        hidden.clone()
    };
    drop(hidden);
    let logits = output(tape, &last, head, kept * vocab);
    let logits = bent(tape, plan, logits);
    drop(last);
    let shifted = tape.slice(
        &logits,
        plan.batch * plan.response.min(plan.seq - 1).max(1) * vocab,
    );
    let wide = tape.to(&shifted, Dtype::Fp32);
    drop(shifted);
    let loss = cross_entropy(tape, &wide);
    let held = match plan.held {
        Held::Nothing => Vec::new(),
        Held::Response => vec![logits, wide],
        Held::LossInput => vec![wide],
        Held::Outputs => vec![logits],
    };
    Loss { loss, held }
}

/// Hidden states times the output matrix; under autocast an fp32 matrix is cast for the product.
fn output(tape: &Tape, x: &Tensor, head: &Raw, numel: u64) -> Tensor {
    let half = tape.half.get();
    if !tape.autocast.get() {
        // The matrix's type rules: a bf16 head on fp32 states is not run without autocast.
        let x = tape.to(x, head.dtype);
        return tape.linear(&x, &Tensor::constant(head.clone()), numel);
    }
    let weight = if head.dtype == half {
        head.clone()
    } else {
        tape.new_raw(head.numel, half)
    };
    let x = tape.to(x, half);
    tape.linear(&x, &Tensor::constant(weight), numel)
}

/// Gemma 2 bends its logits, too.
fn bent(tape: &Tape, plan: &Plan, logits: Tensor) -> Tensor {
    if plan.arch.family == Family::Gemma2 {
        tape.capped(&logits)
    } else {
        logits
    }
}

fn cross_entropy(tape: &Tape, logits: &Tensor) -> Tensor {
    tape.part(Part::Loss);
    let result = tape.new_raw(logits.numel(), Dtype::Fp32);
    let saved = tape.save(&result);
    let node = tape.node(&[logits], move |tape, grads| {
        let result = tape.unpack(saved);
        let made = tape.new_raw(one(grads).numel, Dtype::Fp32);
        drop(result);
        vec![Some(made)]
    });
    let probabilities = tape.output(result, node.as_ref(), 0, logits.grad);
    let saved = tape.save(&probabilities.raw);
    let raw = tape.new_raw(1, Dtype::Fp32);
    let weight = tape.new_raw(1, Dtype::Fp32);
    let numel = probabilities.numel();
    let node = tape.node(&[&probabilities], move |tape, _| {
        let kept = tape.unpack(saved);
        let made = tape.new_raw(numel, Dtype::Fp32);
        drop((kept, weight));
        vec![Some(made)]
    });
    tape.output(raw, node.as_ref(), 0, logits.grad)
}

/// Chunks of tokens, each with its logits made, used and made again in backward (TRL, torchtune, Liger).
fn in_chunks(tape: &Tape, plan: &Plan, hidden: Tensor, head: &Raw, chunk: u64) -> Loss {
    let tokens = if plan.logits_to_keep {
        plan.batch * plan.response
    } else {
        plan.tokens()
    };
    let rows = chunk.min(tokens);
    let numel = rows * plan.arch.vocab;
    let half = tape.half.get();
    let live = [
        tape.new_raw(numel, half),
        tape.new_raw(numel, Dtype::Fp32),
        tape.new_raw(numel, Dtype::Fp32),
    ];
    drop(live);
    let saved = tape.save(&hidden.raw);
    let (full, dtype) = (hidden.numel(), hidden.dtype());
    let _ = head;
    let node = tape.node(&[&hidden], move |tape, _| {
        let hidden = tape.unpack(saved);
        let made = tape.new_raw(full, dtype);
        let live = [
            tape.new_raw(numel, half),
            tape.new_raw(numel, Dtype::Fp32),
            tape.new_raw(numel, Dtype::Fp32),
            tape.new_raw(numel, Dtype::Fp32),
        ];
        drop((live, hidden));
        vec![Some(made)]
    });
    let raw = tape.new_raw(1, Dtype::Fp32);
    let loss = tape.output(raw, node.as_ref(), 0, hidden.grad);
    Loss {
        loss,
        held: Vec::new(),
    }
}
