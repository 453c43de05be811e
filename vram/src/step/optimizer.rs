//! The optimizer's first and later steps: state made once, and what each step holds for a moment.

use crate::recipe::Optimizer;
use crate::tape::{Dtype, Part, Raw, Tape};

/// bitsandbytes keeps smaller parameters in 32 bits.
const SMALLEST_8BIT: u64 = 4096;
/// bitsandbytes pages tensors from this many elements on to the host.
const SMALLEST_PAGED: u64 = 100_000;

/// Makes the state of every trained parameter.
pub(crate) fn state(tape: &Tape, optimizer: Optimizer, trained: &[(u32, u64)]) -> Vec<Raw> {
    tape.part(Part::OptimizerState);
    let mut state = Vec::new();
    if matches!(optimizer, Optimizer::Adamw8bit | Optimizer::PagedAdamw8bit) {
        // Two code books of 256.
        state.extend([
            tape.new_raw(256, Dtype::Fp32),
            tape.new_raw(256, Dtype::Fp32),
        ]);
    }
    for (_, numel) in trained {
        match optimizer {
            Optimizer::Sgd => {}
            Optimizer::Adamw | Optimizer::AdamwFused => {
                state.extend([
                    tape.new_raw(*numel, Dtype::Fp32),
                    tape.new_raw(*numel, Dtype::Fp32),
                ]);
            }
            Optimizer::PagedAdamw32bit => {
                if *numel < SMALLEST_PAGED {
                    state.extend([
                        tape.new_raw(*numel, Dtype::Fp32),
                        tape.new_raw(*numel, Dtype::Fp32),
                    ]);
                }
            }
            Optimizer::Adamw8bit | Optimizer::PagedAdamw8bit => {
                state.extend(eight_bit(
                    tape,
                    *numel,
                    optimizer == Optimizer::PagedAdamw8bit,
                ));
            }
        }
    }
    state
}

fn eight_bit(tape: &Tape, numel: u64, paged: bool) -> Vec<Raw> {
    if numel < SMALLEST_8BIT {
        return vec![
            tape.new_raw(numel, Dtype::Fp32),
            tape.new_raw(numel, Dtype::Fp32),
        ];
    }
    let mut made = Vec::new();
    if !paged || numel < SMALLEST_PAGED {
        made.extend([
            tape.new_raw(numel, Dtype::U8),
            tape.new_raw(numel, Dtype::U8),
        ]);
    }
    // Scales of blocks of 256.
    let blocks = numel.div_ceil(256);
    made.extend([
        tape.new_raw(blocks, Dtype::Fp32),
        tape.new_raw(blocks, Dtype::Fp32),
    ]);
    made
}

/// What one step holds besides: torch's AdamW works on all parameters at once, with their roots in a list.
pub(crate) fn step(tape: &Tape, optimizer: Optimizer, trained: &[(u32, u64)]) {
    if optimizer == Optimizer::Adamw {
        tape.part(Part::OptimizerState);
        let roots: Vec<Raw> = trained
            .iter()
            .map(|(_, numel)| tape.new_raw(*numel, Dtype::Fp32))
            .collect();
        drop(roots);
    }
}
