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
    """Made-up tokens of the recipe's lengths; only their number matters to memory."""
    ids: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor
    extra: dict

    @classmethod
    def made_up(cls, recipe, config, machine, seed=0):
        vocab = min(config.get_text_config().vocab_size, 1000)
        torch.manual_seed(seed)
        ids = torch.randint(10, vocab, (recipe.batch, recipe.seq_len), device=machine.device)
        labels = ids.clone()
        labels[:, :-recipe.response] = -100
        mask = torch.ones_like(ids)
        extra = {"token_type_ids": torch.zeros_like(ids)} if config.model_type == "gemma3" else {}
        return cls(ids, labels, mask, extra)

    def without_labels(self):
        return {"input_ids": self.ids, "attention_mask": self.mask, **self.extra}

    def all(self):
        return {**self.without_labels(), "labels": self.labels}

    def response(self, length):
        return self.ids[:, -length:]


def run(model, inputs, recipe, machine, losses=None):
    """Returns the loss of each step where `losses` is a list (reading it waits for the device)."""
    hooks = fixes.offload(recipe, machine, model)
    kind, half = machine.device.type, getattr(torch, recipe.half)
    autocast = torch.autocast(kind, dtype=half) if recipe.autocast else contextlib.nullcontext()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = machine.optimizer(recipe, trained) if recipe.optimizer_steps else None
    for _ in range(max(1, recipe.optimizer_steps)):
        with autocast:
            with hooks():
                loss, held = loss_of(model, inputs, recipe)
            machine.mark(2)
            machine.backward(loss, hooks)
        if losses is not None:
            losses.append(float(loss.detach()))
        del loss, held
        gc.collect()
        machine.mark(3)
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    machine.mark(4)
    if optimizer is None:
        model.zero_grad(set_to_none=True)
    return losses
