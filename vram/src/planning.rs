//! From a recipe, a mode and a class of device to a plan: what the trainer and the probe do differently, and which
//! kernels and workspaces the device has. Has no plan for a model it knows nothing of.

use crate::generation::generation;
use crate::recipe::{ALL_LINEAR, Attention, Quant, Recipe};
use crate::step::{Held, Kernel, Plan};
use crate::tape::Dtype;
use crate::{Backend, CardKind, DeviceClass, Mode};

/// Steps after which nothing new is allocated: the second has the optimizer's state.
const STEPS: u64 = 2;

/// Whether it is known which layers PEFT adapts by this name: the linear ones of the blocks and of a vision tower, or none
/// at all. What an adapter on the embedding or the output matrix costs is not, nor which layers a pattern or a part of
/// a path finds.
pub(crate) fn is_understood(target: &str) -> bool {
    const OTHERS: [&str; 6] = [
        "lm_head",
        "embed_tokens",
        "embed_tokens_per_layer",
        "patch_embedding",
        "position_embedding",
        "score",
    ];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    target.chars().all(is_name) && !OTHERS.contains(&target)
}

/// Whether a name is that of a linear layer of some family, its vision tower among them.
pub(crate) fn is_linear(target: &str) -> bool {
    const OTHERS: [&str; 5] = ["qkv_proj", "gate_up_proj", "fc1", "fc2", "out_proj"];
    ALL_LINEAR.contains(&target) || OTHERS.contains(&target)
}

pub(crate) fn plan(recipe: &Recipe, mode: Mode, class: &DeviceClass) -> Option<Plan> {
    let arch = recipe
        .architecture()
        .filter(|arch| arch.family.is_known())?;
    let seq = recipe.seq_len?;
    if !recipe.targets.iter().all(|name| is_understood(name)) {
        return None;
    }
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
    let plan = Plan {
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
        workspace: workspace(class).workspace.0,
        full_from: None,
    };
    is_walked(&plan).then_some(plan)
}

/// What a stream for this class of device depends on: one BLAS workspace, and the kernels.
pub(crate) fn workspace(class: &DeviceClass) -> CardKind {
    CardKind::of(class)
}

/// Whether its events are few enough to be gone through: chunks are walked one by one, in each layer. What is not may
/// still be small, so that nothing is known of it.
pub(crate) fn is_walked(plan: &Plan) -> bool {
    const MOST_CHUNKS: u64 = 1024;
    const MOST_OF_ALL_LAYERS: u64 = 1 << 14;
    let chunks = plan.chunk.map_or(1, |chunk| plan.seq / chunk);
    chunks <= MOST_CHUNKS && chunks * plan.arch.layers <= MOST_OF_ALL_LAYERS
}

/// Largest products that stay far from 64 bits: what is beyond is more than any machine has.
pub(crate) fn is_reasonable(plan: &Plan) -> bool {
    let arch = &plan.arch;
    let widest = arch
        .vocab
        .max(arch.intermediate)
        .max(arch.q_width())
        .max(arch.hidden);
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
    [scores, adapters, activations]
        .iter()
        .all(|product| product.is_some_and(|bytes| bytes < 1 << 50))
}
