"""Quantised layers with the blocks of bitsandbytes' own and no numbers: its weight classes cannot hold fake tensors.

They are subclasses of bitsandbytes' layers, so that PEFT wraps them as it wraps those.
"""
import bitsandbytes as bnb
import torch
import torch.nn as nn


class Multiply4bit(torch.autograd.Function):
    """A product with a weight that is made whole for it, forward and backward."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        if layer.imitations.fused(x.numel() // x.shape[-1], layer):
            return x.new_empty(*x.shape[:-1], layer.out_features)
        scales = layer.scales()
        made = nn.functional.linear(x, layer.whole())
        del scales   # they live until the product is there
        return made

    @staticmethod
    def backward(ctx, grad):
        return torch.matmul(grad, ctx.layer.dequantized(forward=False)), None


class Linear4bit(bnb.nn.Linear4bit):
    def __init__(self, layer, recipe, imitations):
        nn.Module.__init__(self)
        self.imitations = imitations
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.compute_dtype = getattr(torch, recipe.half)
        self.quant_type, self.quant_state = recipe.quant, None
        self.compress_statistics = recipe.double_quant
        numel, whole = layer.weight.numel(), layer.weight
        new = lambda size, dtype: torch.empty(size, dtype=dtype, device=whole.device)
        # In the order of bitsandbytes' quantize_4bit: scales, packed halves, code book, then the nested scales.
        scales = new(-(-numel // 64), torch.float32)
        packed = new((-(-numel // 2), 1), torch.uint8)
        self.register_buffer("code", new(16, torch.float32))
        new(16, torch.float32), new(1, torch.float32)
        if recipe.double_quant:
            self.register_buffer("offset", new(1, torch.float32))
            centred = scales - 0.0
            blocks = scales.numel()
            self.register_buffer("absmax2", new(-(-blocks // 256), torch.float32))
            self.register_buffer("absmax", new(blocks, torch.uint8))
            self.register_buffer("code2", new(256, torch.float32))
            del centred
        else:
            self.register_buffer("absmax", scales)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.weight.compress_statistics, self.weight.quant_type, self.weight.quant_state = recipe.double_quant, recipe.quant, None
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.data, requires_grad=False)

    def __deepcopy__(self, memo):
        """PEFT copies a 4-bit layer before it takes the weight's norm for DoRA; a fake tensor cannot be copied so."""
        copy = Linear4bit.__new__(Linear4bit)
        nn.Module.__init__(copy)
        for name in ("in_features", "out_features", "compute_dtype", "quant_type", "quant_state", "compress_statistics",
                     "imitations"):
            setattr(copy, name, getattr(self, name))
        copy.weight = nn.Parameter(torch.empty_like(self.weight), requires_grad=False)
        for name, buffer in self._buffers.items():
            copy.register_buffer(name, torch.empty_like(buffer))
        copy.bias = None if self.bias is None else nn.Parameter(torch.empty_like(self.bias), requires_grad=False)
        return copy

    def scales(self):
        """Nested ones are made whole first; forward adds their offset in a second block."""
        if not self.compress_statistics:
            return None
        whole = torch.empty(self.absmax.numel(), dtype=torch.float32, device=self.absmax.device)
        return whole, whole + 0.0

    def whole(self):
        return torch.empty(self.out_features, self.in_features, dtype=self.compute_dtype, device=self.absmax.device)

    def dequantized(self, forward=True):
        """Outside of a product, and in backward, where the offset is added in place, scales end before it."""
        scales = self.scales() if forward else None
        if not forward and self.compress_statistics:
            scales = torch.empty(self.absmax.numel(), dtype=torch.float32, device=self.absmax.device)
        made = self.whole()
        del scales
        return made

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            made = Multiply4bit.apply(x.to(self.compute_dtype), self)
            if self.bias is not None:
                made = made + self.bias.to(made.dtype)
        return made.to(x.dtype)


class Multiply8bit(torch.autograd.Function):
    """LLM.int8() with its threshold; no outliers, as in made-up numbers (real ones add a few columns)."""

    @staticmethod
    def forward(ctx, x, layer, bias):
        ctx.layer, ctx.shape, ctx.kind = layer, x.shape, x.dtype
        flat = x.reshape(-1, x.shape[-1])
        half = flat.to(torch.float16)
        stats = torch.empty(flat.shape[0], dtype=torch.float32, device=x.device)
        packed = torch.empty(flat.shape, dtype=torch.int8, device=x.device)
        found = half.abs() >= 6.0
        del found, half
        whole = torch.empty(flat.shape[0], layer.out_features, dtype=torch.int32, device=x.device)
        made = torch.empty_like(whole, dtype=torch.float16)
        if made.dtype != x.dtype:
            made = made.to(x.dtype)
        ctx.kept = flat   # an attribute, not a saved tensor: no hook sees it
        del stats, packed, whole
        if bias is not None:
            made = made + bias
        return made.reshape(*x.shape[:-1], layer.out_features)

    @staticmethod
    def backward(ctx, grad):
        layer = ctx.layer
        grad = grad.reshape(-1, grad.shape[-1]).contiguous()
        whole = torch.empty(layer.weight.shape, dtype=ctx.kind, device=grad.device)
        return torch.matmul(grad.to(ctx.kind), whole).view(ctx.shape), None, None


class Linear8bitLt(bnb.nn.Linear8bitLt):
    def __init__(self, layer, recipe, imitations):
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.index, self.state = None, bnb.MatmulLtState()
        self.state.threshold, self.state.has_fp16_weights = 6.0, False
        if layer.weight.dtype != torch.float16:
            layer.weight.data.to(torch.float16)
        scales = torch.empty(layer.out_features, dtype=torch.float32, device=layer.weight.device)
        packed = torch.empty(layer.weight.shape, dtype=torch.int8, device=layer.weight.device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.weight.CB = None
        self.register_buffer("scales", scales)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.data, requires_grad=False)

    def dequantized(self, forward=True):
        return torch.empty(self.weight.shape, dtype=torch.float32, device=self.weight.device)

    def forward(self, x):
        bias = self.bias
        if bias is not None and bias.dtype != x.dtype:
            bias = bias.to(x.dtype)
        return Multiply8bit.apply(x, self, bias)


def linear(layer, recipe, imitations):
    return (Linear8bitLt if recipe.quant == "int8" else Linear4bit)(layer, recipe, imitations)
