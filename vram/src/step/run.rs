//! The whole run: load, then steps of forward, backward and optimizer, with a mark at the end of each stage.

use std::rc::Rc;

use crate::step::block::{Shared, norm};
use crate::step::load::{Model, load};
use crate::step::loss::{Loss, loss};
use crate::step::{Held, Plan, optimizer};
use crate::stream::{Event, Stream};
use crate::tape::{Dtype, Keep, Part, Raw, Tape, Tensor};

/// Marks beyond those of recorded streams: after loading, and before an optimizer's step.
pub(crate) const AFTER_LOAD: u8 = 10;

/// Another step begins.
pub(crate) const NEXT_STEP: u8 = 5;

/// A block begins to run forward.
pub(crate) const BLOCK: u8 = 31;

/// A checkpointed segment begins to run again.
pub(crate) const SEGMENT: u8 = 30;

/// Gradient of the embedding's output, which exists so that checkpointed segments are differentiated.
const INPUT_GRADIENT: u32 = u32::MAX;

/// The allocations of a planned run, from the first weight to the end of its last step.
pub(crate) fn stream(plan: &Plan) -> Stream {
    let tape = Tape::new(plan.workspace);
    tape.half.set(plan.half);
    let model = load(&tape, plan);
    tape.log.push(Event::Mark(1));
    let mut state: Vec<Raw> = Vec::new();
    for step in 0..plan.steps.max(1) {
        if step > 0 {
            tape.log.push(Event::Mark(NEXT_STEP));
        }
        forward_and_backward(&tape, plan, &model);
        tape.log.push(Event::Mark(3));
        if plan.steps > 0 {
            if step == 0 {
                state = optimizer::state(&tape, plan.optimizer, &model.trained);
            }
            optimizer::step(&tape, plan.optimizer, &model.trained);
        }
        tape.grads.borrow_mut().clear();
    }
    tape.log.push(Event::Mark(4));
    drop(state);
    tape.log.take()
}

fn forward_and_backward(tape: &Rc<Tape>, plan: &Plan, model: &Model) {
    tape.part(Part::Inputs);
    let inputs: Vec<Raw> = (0..4)
        .map(|_| tape.new_raw(plan.tokens(), Dtype::I64))
        .collect();
    tape.autocast.set(plan.autocast);
    let keep = if plan.save_on_cpu {
        Keep::OnHost {
            weights: !plan.skips_weights,
        }
    } else {
        Keep::OnDevice
    };
    tape.keeping(keep, || {
        let Loss { loss, held } = forward(tape, plan, model);
        tape.log.push(Event::Mark(2));
        let cache = tape.cache.take();
        let outputs_held =
            plan.held == Held::Outputs || plan.held == Held::Response && plan.logits_to_keep;
        let cache = outputs_held.then_some(cache);
        tape.backward(loss);
        drop((held, cache));
    });
    tape.clear_casts();
    tape.grads.borrow_mut().remove(&INPUT_GRADIENT);
    drop(inputs);
}

fn forward(tape: &Rc<Tape>, plan: &Plan, model: &Model) -> Loss {
    let mut x = embed(tape, plan);
    let full = needs_mask(plan, false).then(|| mask(tape, plan, x.dtype()));
    let sliding = needs_mask(plan, true).then(|| mask(tape, plan, x.dtype()));
    let tables = rotations(tape, plan, x.dtype());
    for (at, block) in model.blocks.iter().enumerate() {
        tape.log.push(Event::Mark(BLOCK));
        let slides = plan.slides(at as u64);
        let shared = Shared {
            cos: tables.0.clone(),
            sin: tables.1.clone(),
            mask: if slides {
                sliding.clone()
            } else {
                full.clone()
            },
        };
        let (block, plan) = (Rc::clone(block), Rc::new(plan.clone()));
        x = if plan.checkpointing {
            tape.checkpointed(
                &x,
                Rc::new(move |tape, x| block.forward(tape, &plan, x, &shared)),
            )
        } else {
            block.forward(tape, &plan, &x, &shared)
        };
    }
    let normed = norm(tape, plan, &x, plan.arch.hidden);
    drop((x, full, sliding, tables));
    loss(tape, plan, normed, &model.head)
}

fn embed(tape: &Tape, plan: &Plan) -> Tensor {
    tape.part(Part::Residual);
    let numel = plan.tokens() * plan.arch.hidden;
    let mut raw = tape.new_raw(numel, plan.head_dtype());
    if plan.arch.family.is_gemma() {
        // Scaled by the root of the width.
        raw = tape.new_raw(numel, plan.head_dtype());
    }
    if plan.checkpointing {
        tape.leaf(raw, INPUT_GRADIENT)
    } else {
        Tensor::constant(raw)
    }
}

/// Plain causal attention needs no mask, nor does a window longer than the sequence.
pub(crate) fn needs_mask(plan: &Plan, slides: bool) -> bool {
    use crate::architecture::Family;
    let arch = &plan.arch;
    // Gemma makes both masks for all its layers; a model whose layers are of one kind makes one.
    let is_made = if slides {
        arch.sliding_window.is_some()
    } else {
        arch.family.is_gemma() || arch.sliding_window.is_none() || arch.full_every != 0
    };
    let is_needed = match (slides, arch.sliding_window) {
        (true, Some(window)) => plan.seq >= window,
        _ => false,
    };
    // Gemma 3 with eyes is told which tokens are images, so its masks are always needed.
    let has_eyes = arch.family == Family::Gemma3 && arch.vision.is_some();
    is_made && (is_needed || has_eyes || plan.plain_kernel == crate::step::Kernel::Eager)
}

/// What one mask takes, once it is made.
pub(crate) fn mask_bytes(plan: &Plan) -> u64 {
    let numel = plan.batch * plan.seq * plan.seq;
    if plan.plain_kernel == crate::step::Kernel::Eager {
        numel * plan.head_dtype().bytes()
    } else {
        numel
    }
}

/// Boolean masks are made by combining conditions, each of the mask's size.
fn mask(tape: &Tape, plan: &Plan, dtype: Dtype) -> Raw {
    tape.part(Part::Masks);
    let numel = plan.batch * plan.seq * plan.seq;
    let condition = || tape.new_raw(numel, Dtype::U8);
    let either = (condition(), condition()).1;
    let both = (condition(), condition()).1;
    let joined = condition();
    drop((both, either));
    let causal = condition();
    drop(joined);
    let padded = condition();
    drop(causal);
    if plan.plain_kernel == crate::step::Kernel::Eager {
        // Added to the scores, so in their type.
        return tape.new_raw(numel, dtype);
    }
    padded
}

/// Cosines and sines of the positions, made in fp32; the matrix product takes the first workspace.
fn rotations(tape: &Tape, plan: &Plan, dtype: Dtype) -> (Raw, Raw) {
    use crate::architecture::Family;
    tape.part(Part::Attention);
    let numel = plan.seq * plan.arch.head_dim;
    let make = || {
        let angles = tape.new_raw(numel / 2, Dtype::Fp32);
        tape.blas();
        let doubled = tape.new_raw(numel, Dtype::Fp32);
        let cos = (
            tape.new_raw(numel, Dtype::Fp32),
            tape.new_raw(numel, Dtype::Fp32),
        )
            .1;
        let sin = (
            tape.new_raw(numel, Dtype::Fp32),
            tape.new_raw(numel, Dtype::Fp32),
        )
            .1;
        let made = if dtype == Dtype::Fp32 {
            (cos, sin)
        } else {
            (tape.new_raw(numel, dtype), tape.new_raw(numel, dtype))
        };
        drop((angles, doubled));
        made
    };
    let first = make();
    // Gemma 3 has two bases: for its sliding and for its full layers.
    let _second = (plan.arch.family == Family::Gemma3).then(make);
    first
}
