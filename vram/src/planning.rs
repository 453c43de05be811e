//! From a recipe, a mode and a class of device to a plan: what the trainer and the probe do differently, and which
//! kernels and workspaces the device has. Has no plan for a model it knows nothing of.

use crate::recipe::{Attention, Quant, Recipe};
use crate::row::generation;
use crate::step::{Held, Kernel, Plan};
use crate::tape::Dtype;
use crate::{Backend, DeviceClass, Mode};

/// Steps after which nothing new is allocated: the second has the optimizer's state.
const STEPS: u64 = 2;

pub(crate) fn plan(recipe: &Recipe, mode: Mode, class: &DeviceClass) -> Option<Plan> {
    let arch = recipe
        .architecture()
        .filter(|arch| arch.family.is_known())?;
    let seq = recipe.seq_len?;
    let half = if recipe.quant == Quant::Fp16 {
        Dtype::Fp16
    } else {
        Dtype::Bf16
    };
    let vendor = if class.backend == Backend::Rocm {
        "amd"
    } else {
        ""
    };
    let generation = generation(&class.name, vendor);
    let (plain, masked) = match recipe.attention {
        Attention::Sdpa => generation.kernels(),
        Attention::Eager => (Kernel::Eager, Kernel::Eager),
    };
    // The trainer runs with autocast and lets the logits go; the program's probe (see the seeds) does neither.
    let trains = mode == Mode::Train;
    let autocast = recipe.autocast.unwrap_or(trains);
    let flash = plain == Kernel::Flash;
    let plain = if !autocast && recipe.quant.is_kbit() && flash {
        Kernel::Efficient
    } else {
        plain
    };
    Some(Plan {
        arch: arch.clone(),
        quant: recipe.quant,
        double_quant: recipe.double_quant,
        half,
        targets: recipe.targets.clone(),
        rank: recipe.rank,
        dropout: recipe.dropout,
        dora: recipe.dora,
        batch: recipe.batch,
        seq,
        response: recipe.response_len.unwrap_or(seq).min(seq),
        plain_kernel: plain,
        masked_kernel: masked,
        checkpointing: recipe.gradient_checkpointing,
        use_cache: false,
        save_on_cpu: recipe.has_fix("save_on_cpu") || recipe.has_fix("save_on_cpu_skips_weights"),
        skips_weights: recipe.has_fix("save_on_cpu_skips_weights"),
        chunk: recipe.mlp_chunk,
        bf16_lm_head: recipe.has_fix("bf16_lm_head"),
        logits_to_keep: recipe.has_fix("logits_to_keep"),
        chunked_loss: recipe.loss_chunk,
        autocast,
        held: if recipe.logits_freed.unwrap_or(trains) {
            Held::Nothing
        } else {
            Held::LossInput
        },
        optimizer: recipe.optimizer,
        steps: if trains { STEPS } else { 0 },
        cache_emptied_before_adapters: recipe.has_fix("cache_emptied_before_adapters"),
        workspace: workspace(class),
        full_from: None,
    })
}

/// Bytes of one BLAS workspace on this class of device.
pub(crate) fn workspace(class: &DeviceClass) -> u64 {
    match class.backend {
        Backend::Cpu => 0,
        Backend::Cuda => generation(&class.name, "").workspace(),
        Backend::Rocm => generation(&class.name, "amd").workspace(),
    }
}

const MOST_CHUNKS: u64 = 1024;

/// Largest products that stay far from 64 bits: beyond it nothing is planned.
pub(crate) fn is_reasonable(plan: &Plan) -> bool {
    let arch = &plan.arch;
    let widest = arch.vocab.max(arch.intermediate).max(arch.q_width());
    let tokens = plan.batch.checked_mul(plan.seq);
    let scores = tokens
        .and_then(|tokens| tokens.checked_mul(plan.seq))
        .and_then(|one| one.checked_mul(arch.heads));
    let adapters = plan
        .rank
        .checked_mul(widest)
        .and_then(|one| one.checked_mul(arch.layers));
    let activations = tokens
        .and_then(|tokens| tokens.checked_mul(widest))
        .and_then(|one| one.checked_mul(arch.layers));
    // Chunks are walked one by one.
    if plan
        .chunk
        .is_some_and(|chunk| plan.seq / chunk > MOST_CHUNKS)
    {
        return false;
    }
    [scores, adapters, activations]
        .iter()
        .all(|product| product.is_some_and(|bytes| bytes < 1 << 50))
}
