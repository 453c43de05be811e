"""The step of jobs/kit/step run for real on the CPU: small models of random numbers, a few optimizer steps, one seed.

Nothing here is a second version of the step: it is `model.ready` and `one_step.run` on a machine that is a `Card` of
the CPU. Only two things are its own. Adapters start from random numbers on both sides, since with PEFT's zeros the
first steps would not see most of what a fix touches; and the learning rate is large, so that a wrong gradient shows.
"""
import torch

import live_sets  # noqa: F401  (puts the kit on the path)
import small
from step import machine, model as models, one_step, recipe as recipes


class Cpu(machine.Card):
    """A `Card` without a card."""

    def __init__(self):
        super().__init__("cpu")
        self.packed = self.emptied = 0

    def empty_cache(self):
        self.emptied += 1
        super().empty_cache()

    def saved_on_host(self, tensor):
        self.packed += 1
        return super().saved_on_host(tensor)

    def optimizer(self, recipe, parameters):
        if recipe.optimizer != "adamw":
            return super().optimizer(recipe, parameters)
        return torch.optim.AdamW(parameters, lr=1e-2)


class OnCuda(machine.Card):
    """A card as it is; its weights come to the host afterwards, to be compared."""
    packed = emptied = 0


class Trained:
    """What came of it: the loss of each step, and each trained weight after the last."""

    def __init__(self, losses, weights, card):
        self.losses, self.weights, self.card = losses, weights, card

    def same_bits(self, other):
        return self.losses == other.losses and all(
            torch.equal(mine, other.weights[name]) for name, mine in self.weights.items())

    def furthest(self, other):
        """The largest difference of two losses of one step, relative to the loss; infinite where one is not a number."""
        apart = [abs(a - b) / abs(b) for a, b in zip(self.losses, other.losses, strict=True)]
        return max(one if one == one else float("inf") for one in apart)


def trained(family="llama", card=None, seed=5, **given):
    """`given` are settings of the recipe. Three optimizer steps; the first loss is of the untouched weights."""
    with_defaults = {"quant": "fp32", "autocast": False, "optimizer_steps": 3, "seq_len": 40, "response_len": 11,
                     "shape": {"vocab_size": 512}, **given}
    recipe = recipes.read(small.settings(family, **with_defaults), "train")
    card, losses = card or Cpu(), []
    torch.manual_seed(seed)
    config = models.config_of(recipe)
    model = models.ready(recipe, card, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.05)
    one_step.run(model, one_step.Inputs.made_up(recipe, config, card, seed), recipe, card, losses)
    return Trained(losses, {name: weight.detach().cpu() for name, weight in model.named_parameters() if weight.requires_grad}, card)
