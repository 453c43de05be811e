"""What the step asks of the machine that it runs on. `Card` is a real one; the rehearsal has one of its own.

Here is everything that may differ between the two; the step itself must not ask where it runs.
"""
import gc

import torch
import torch.nn as nn


class Card:
    """A CUDA or ROCm device, or the CPU."""

    def __init__(self, device=None):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        #: Where whole weights are made before they are quantised: the host, where the device could not hold them.
        self.build_device = self.device

    def empty_cache(self):
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def loaded(self):
        """The base model is there."""

    def mark(self, number):
        """1 before the step, 2 after forward, 3 after backward, 4 after the last step."""

    def backward(self, loss, hooks):
        with hooks():
            loss.backward()

    def saved_on_host(self, tensor):
        """The way of torch's `save_on_cpu(pin_memory=True)`: a copy in pinned memory."""
        host = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=self.device.type == "cuda")
        host.copy_(tensor)
        return self.device, host

    def back_from_host(self, packed):
        device, host = packed
        return host.to(device, non_blocking=self.device.type == "cuda")

    def linear(self, layer, recipe):
        """A linear layer of the base model, quantised as the recipe says."""
        import bitsandbytes as bnb
        half = getattr(torch, recipe.half)
        i, o, bias = layer.in_features, layer.out_features, layer.bias is not None
        if recipe.quant == "int8":
            made = bnb.nn.Linear8bitLt(i, o, bias=bias, has_fp16_weights=False, threshold=6.0, device="meta")
            made.weight = bnb.nn.Int8Params(layer.weight.data, requires_grad=False, has_fp16_weights=False)
            made.weight = made.weight._quantize(self.device)
        else:
            made = bnb.nn.Linear4bit(i, o, bias=bias, compute_dtype=half, compress_statistics=recipe.double_quant,
                                     quant_type=recipe.quant, device="meta")
            made.weight = bnb.nn.Params4bit(layer.weight.data, requires_grad=False, quant_type=recipe.quant,
                                            compress_statistics=recipe.double_quant, module=made)
            made.weight = made.weight._quantize(self.device)
        if bias:
            made.bias = nn.Parameter(layer.bias.data, requires_grad=False)
        return made

    def optimizer(self, recipe, parameters):
        make, settings = optimizer_kind(recipe)
        return make(parameters, **settings)


def optimizer_kind(recipe):
    """The class and what it is given, learning rate and weight decay among it."""
    name, settings = recipe.optimizer, {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    if name == "adamw":
        return torch.optim.AdamW, settings
    if name == "sgd":
        return torch.optim.SGD, settings
    import bitsandbytes as bnb
    kinds = {"adamw_8bit": bnb.optim.AdamW8bit, "paged_adamw_8bit": bnb.optim.PagedAdamW8bit,
             "paged_adamw_32bit": bnb.optim.PagedAdamW32bit}
    return kinds[name], settings
