//! Compute buffers: what one batch needs while it passes the layers. Each card has its own; several cards work on
//! several batches at once.

use super::cache::{BATCH, cells};
use crate::architecture::Architecture;

/// Batches under way at once where cards take turns (llama.cpp `GGML_SCHED_MAX_COPIES`): each card holds the inputs of
/// all of them. Ollama's llm/llama_server_test.go has the log of a 27B on two cards, 262,144 tokens and batches of
/// 2,048: against that the first card comes out right, the second 10 % too large.
const COPIES: u64 = 4;

/// Where a card stands among those that share a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seat {
    Alone,
    First,
    Later,
}

/// As llama.cpp reserves them. It reserves logits of one token for each request since pull request 23861 of June 2026;
/// before that of the whole batch, `BATCH * vocab * 4` bytes, which the seeds' gpt-oss:20b rules out.
pub(super) fn of_llama_cpp(
    architecture: &Architecture,
    context_len: u64,
    parallel: u64,
    seat: Seat,
) -> u64 {
    let context = context_len.saturating_mul(parallel);
    let masks = product(&[BATCH, 2, masked(architecture, context)]);
    let hidden = product(&[BATCH, 4, architecture.hidden]);
    let activations = product(&[BATCH, 4, width(architecture)]);
    let logits = product(&[parallel, 4, architecture.vocab]);
    let inputs = match seat {
        Seat::Alone => masks,
        // It gets the masks in f32 and makes them f16 for itself and the others.
        Seat::First => (COPIES * 2 + 1)
            .saturating_mul(masks)
            .saturating_add(COPIES * hidden),
        Seat::Later => COPIES.saturating_mul(masks.saturating_add(hidden)),
    };
    inputs.saturating_add(activations).saturating_add(logits)
}

/// As transformers computes a prompt: all of it at once, in half precision. A sliding model makes two masks of its
/// square (memory-model 2.5). Prompts of one batch are padded to one length, and padding needs a mask of truth values
/// where a single prompt needs none; the kernel makes it a bias in half precision.
pub(super) fn of_transformers(architecture: &Architecture, context_len: u64, parallel: u64) -> u64 {
    let masks = match architecture.sliding_window {
        Some(_) => product(&[4, context_len, context_len]),
        None if parallel > 1 => product(&[1 + 2, context_len, context_len]),
        None => 0,
    };
    let activations = product(&[context_len, 2, width(architecture)]);
    let logits = product(&[parallel, 4, architecture.vocab]);
    let one = masks.saturating_add(activations);
    one.saturating_mul(parallel).saturating_add(logits)
}

/// Values of a token alive at once: gate, up and their product, and three of the residual stream. Against llama.cpp's
/// logs, less their masks: gemma-3-4b 73.5 MiB (computed 75.0), gemma-4-12b 122.3 (112.5), gpt-oss-20b 118.3 (84.4).
fn width(architecture: &Architecture) -> u64 {
    let used = architecture.experts_used;
    let mlp = if architecture.experts > 1 && used > 0 {
        used.saturating_mul(architecture.expert_intermediate)
    } else {
        architecture.intermediate
    };
    3 * (mlp.saturating_add(architecture.hidden))
}

/// One mask for the layers that see everything, another for those that slide.
fn masked(architecture: &Architecture, context_len: u64) -> u64 {
    let layers = 0..architecture.layers;
    let seen = layers
        .filter(|layer| architecture.linear_attention(*layer).is_none())
        .map(|layer| cells(architecture, layer, context_len));
    let mut kinds: Vec<u64> = seen.collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.into_iter().fold(0, u64::saturating_add)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}
