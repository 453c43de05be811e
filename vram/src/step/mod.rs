//! One training step as a stream of allocations: the model is loaded, prepared and given its adapters, then steps run
//! forward, backward and through the optimizer, block by block as the framework would.
//! Knows shapes and switches only; a plan says all of them, nothing is guessed here.

mod attention;
mod block;
mod dora;
mod linear;
mod load;
mod loss;
mod ops;
mod optimizer;
mod plan;
mod run;

pub(crate) use plan::{Held, Kernel, Plan};
pub(crate) use run::{AFTER_LOAD, BLOCK, NEXT_STEP, SEGMENT, mask_bytes, needs_mask, stream};
