"""Memory fixes, named as in the sweep file. All but the first compute the same: at most sums are taken in another order.

* bf16_lm_head: embedding and head back to half precision after k-bit preparation made them fp32. The first loss is the
  same within rounding; later ones move by half a per cent (docs/rehearsal.md), as what is trained rounds.
* chunked_mlp: the MLP over pieces of the sequence.
* save_on_cpu: what is saved for backward waits in host memory; weights go there, too, unless
  save_on_cpu_skips_weights is given.
* logits_to_keep, chunked_loss: see loss.py. cache_emptied_before_adapters: see model.py.
"""
import contextlib
import functools

import torch


def bf16_lm_head(model, half):
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        if module is not None:
            module.weight.data = module.weight.data.to(half)


def chunked_mlp(model, tokens):
    for module in model.modules():
        if type(module).__name__.endswith("MLP") and (hasattr(module, "gate_proj") or hasattr(module, "gate_up_proj")):
            module.forward = functools.partial(_in_pieces, module.forward, tokens)


def _in_pieces(forward, tokens, x):
    if x.shape[1] <= tokens:
        return forward(x)
    return torch.cat([forward(piece) for piece in x.split(tokens, dim=1)], dim=1)


def offload(recipe, machine, model):
    """A function that opens the hooks of a step: with the offload, saved tensors wait on the host."""
    skips = recipe.has("save_on_cpu_skips_weights")
    if not recipe.has("save_on_cpu") and not skips:
        return contextlib.nullcontext
    weights = {weight.untyped_storage()._cdata for weight in model.parameters()} if skips else set()

    def pack(tensor):
        # A view of a weight (its transpose) shares the weight's storage.
        if tensor.untyped_storage()._cdata in weights:
            return tensor
        return machine.saved_on_host(tensor)

    def unpack(packed):
        return packed if isinstance(packed, torch.Tensor) else machine.back_from_host(packed)

    return lambda: torch.autograd.graph.saved_tensors_hooks(pack, unpack)
