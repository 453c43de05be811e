"""Optimizer steps of a trainer-like loop: forward, loss, backward, and the optimizer where the recipe has one.

A recipe of zero steps is a probe: one forward and backward alone.
"""
import contextlib
import dataclasses
import gc

import torch

from . import fixes
from .loss import loss_of


@dataclasses.dataclass
class Inputs:
    """One batch, made-up or real. Real ones are padded on the left, so that the responses end together."""
    ids: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor
    extra: dict
    #: Tokens of the longest response of the batch.
    response_len: int
    #: One factor an example, on its loss; None where all count alike.
    weights: torch.Tensor | None = None
    #: Tokens that count, where the responses of the batch differ in length.
    counted: int | None = None

    @classmethod
    def made_up(cls, recipe, config, machine, seed=0):
        """Tokens of the recipe's lengths; only their number matters to memory."""
        vocab = min(config.get_text_config().vocab_size, 1000)
        torch.manual_seed(seed)
        ids = torch.randint(10, vocab, (recipe.batch, recipe.seq_len), device=machine.device)
        labels = ids.clone()
        labels[:, :-recipe.response] = -100
        mask = torch.ones_like(ids)
        return cls(ids, labels, mask, cls.extra_of(config, ids), recipe.response)

    @staticmethod
    def extra_of(config, ids):
        """What a family asks for besides tokens."""
        return {"token_type_ids": torch.zeros_like(ids)} if config.model_type == "gemma3" else {}

    def without_labels(self):
        return {"input_ids": self.ids, "attention_mask": self.mask, **self.extra}

    def all(self):
        return {**self.without_labels(), "labels": self.labels}

    def response(self, length):
        return self.labels[:, -length:]


def autocast(recipe, machine):
    half = getattr(torch, recipe.half)
    return torch.autocast(machine.device.type, dtype=half) if recipe.autocast else contextlib.nullcontext()


def forward_backward(model, inputs, recipe, machine, hooks, share=1.0):
    """One micro-batch; `share` is its part of an optimizer step. Gives the loss, without its graph."""
    with autocast(recipe, machine):
        with hooks():
            loss, held = loss_of(model, inputs, recipe)
        machine.mark(2)
        machine.backward(loss if share == 1.0 else loss * share, hooks)
    loss = loss.detach()
    del held
    gc.collect()
    machine.mark(3)
    return loss


def run(model, inputs, recipe, machine, losses=None):
    """Returns the loss of each step where `losses` is a list (reading it waits for the device)."""
    hooks = fixes.offload(recipe, machine, model)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = machine.optimizer(recipe, trained) if recipe.optimizer_steps else None
    for _ in range(max(1, recipe.optimizer_steps)):
        loss = forward_backward(model, inputs, recipe, machine, hooks)
        if losses is not None:
            losses.append(float(loss))
        del loss
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    machine.mark(4)
    if optimizer is None:
        model.zero_grad(set_to_none=True)
    return losses
