//! Everything that the allocations of a step depend on, in one place: the model's shape, the recipe, and what of the
//! machine changes sizes (kernels, workspaces).

use std::collections::BTreeSet;

use crate::architecture::Architecture;
use crate::recipe::{Optimizer, Quant};
use crate::tape::Dtype;

/// The attention kernel that the framework takes on this device for these shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kernel {
    /// No mask needed: flash attention, grouped heads stay grouped.
    Flash,
    /// cuDNN's, which Hopper takes where there is a mask.
    CuDnn,
    /// The memory-efficient kernel, with an aligned bias for a mask.
    Efficient,
    /// ROCm's, which sums dQ in place.
    Triton,
    /// Scores and probabilities written out.
    Eager,
}

/// What the program still holds of the model's outputs while backward runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Held {
    /// The trainer's way.
    Nothing,
    /// The response's logits as the model gave them and their fp32 copy; of whole logits nothing.
    Response,
    /// The model's outputs as it gave them.
    Outputs,
    /// Only the logits that the loss was computed of: the way of the program's own probe.
    LossInput,
}

/// PEFT's word for every linear layer but the output matrix.
const ALL: &str = "all-linear";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Plan {
    pub arch: Architecture,
    pub quant: Quant,
    pub double_quant: bool,
    /// bf16 or fp16: of the base weights that are not quantised, and of autocast.
    pub half: Dtype,
    pub targets: BTreeSet<String>,
    /// Zero: no adapters.
    pub rank: u64,
    pub dropout: bool,
    pub dora: bool,
    pub batch: u64,
    pub seq: u64,
    pub response: u64,
    /// Where attention needs no mask, and where it does.
    pub plain_kernel: Kernel,
    pub masked_kernel: Kernel,
    pub checkpointing: bool,
    /// Keys and values kept as for generation: of no use in training, but on where nobody switches it off.
    pub use_cache: bool,
    pub save_on_cpu: bool,
    pub skips_weights: bool,
    pub chunk: Option<u64>,
    pub bf16_lm_head: bool,
    pub logits_to_keep: bool,
    pub chunked_loss: Option<u64>,
    pub autocast: bool,
    pub held: Held,
    pub optimizer: Optimizer,
    /// Optimizer steps; zero is a probe: forward and backward alone.
    pub steps: u64,
    pub cache_emptied_before_adapters: bool,
    /// Bytes of a BLAS workspace.
    pub workspace: u64,
    /// Of short models only: layers from here on attend to everything, whatever the model's pattern says.
    pub full_from: Option<u64>,
}

impl Plan {
    pub(crate) fn tokens(&self) -> u64 {
        self.batch * self.seq
    }

    /// Type of the embedding (and head) while the step runs.
    pub(crate) fn head_dtype(&self) -> Dtype {
        match self.quant {
            Quant::Fp32 => Dtype::Fp32,
            quant if quant.is_kbit() && !self.bf16_lm_head => Dtype::Fp32,
            _ => self.half,
        }
    }

    /// Type of norms and biases: k-bit preparation puts them in fp32.
    pub(crate) fn norm_dtype(&self) -> Dtype {
        if self.quant.is_kbit() || self.quant == Quant::Fp32 {
            Dtype::Fp32
        } else {
            self.half
        }
    }

    /// Whether a layer attends within the sliding window only.
    pub(crate) fn slides(&self, layer: u64) -> bool {
        match self.full_from {
            Some(from) => layer < from,
            None => self.arch.is_sliding(layer),
        }
    }

    pub(crate) fn adapts(&self, name: &str) -> bool {
        let is_named = self.targets.contains(name) || self.targets.contains(ALL);
        self.rank > 0 && is_named
    }
}
