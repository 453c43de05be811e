"""What a CUDA device does otherwise than fake tensors on a CPU. Each is a name that can be switched off.

How each was found: live sets of the same step, rehearsed and real, compared block by block.
"""
import contextlib
import sys
import threading

import torch
import torch.nn as nn

from . import devices

ALL = (
    "accumulate_in_place",    # gradients are summed in place on a device, not for tensor subclasses
    "backward_thread",        # backward runs in a thread of its own, at autocast nesting 0: its cache is cleared there
    "blas_workspaces",        # each thread that multiplies matrices holds one workspace
    "boolean_dropout_mask",   # dropout's mask takes a byte an element
    "attention_kernels",      # flash attention keeps grouped heads grouped and sums dQ in fp32; ROCm's does not sum
    "aligned_bias",           # a boolean mask becomes an aligned bias for the memory-efficient kernel
    "attention_autocast",     # attention casts to half precision under autocast
    "untraced_masks",         # masks are made as outside of tracing
    "cuda_autocast_asked",    # PEFT asks whether CUDA's autocast is on
    "contiguous_offload",     # a view that is not contiguous goes to the host through a copy
    "softmax_product",        # softmax's backward makes the product of gradient and result first
    "loss_in_fp32",           # under CUDA's autocast cross entropy runs in fp32
)


class Imitations:
    def __init__(self, recipe, device=devices.HOPPER, off=()):
        unknown = set(off) - set(ALL)
        if unknown:
            raise ValueError(f"unknown imitations {sorted(unknown)}; known: {', '.join(ALL)}")
        self.recipe, self.device, self.off = recipe, device, frozenset(off)

    def on(self, name):
        return name not in self.off

    # -- asked of by the recorder, for each operation

    def before(self, recorder, func, args):
        """A result that stands for the operation's own, or nothing."""
        aten = torch.ops.aten
        if func is aten._local_scalar_dense.default:
            return True   # "are all tokens attended to?": yes
        if func in (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default):
            self.matmul(recorder)
        return None

    def matmul(self, recorder):
        if not self.on("blas_workspaces") or not recorder.workspace:
            return
        thread = threading.current_thread().name
        if thread not in recorder.handles:
            recorder.handles.add(thread)
            recorder.birth(recorder.workspace, f"workspace {thread}")

    def scratch(self, func, args):
        """Bytes that an operation holds while it runs, besides what it gives back."""
        if func is torch.ops.aten._softmax_backward_data.default and self.on("softmax_product"):
            return args[1].numel() * args[1].element_size()
        return 0

    def in_place(self, recorder, func, args, result):
        if func is not torch.ops.aten.add.Tensor or not self.on("accumulate_in_place"):
            return False
        first = args[0]
        if not isinstance(first, torch.Tensor) or (first.shape, first.dtype) != (result.shape, result.dtype):
            return False
        if not sys._getframe(2).f_code.co_filename.endswith("graph.py"):
            return False
        return recorder.storage_moved(first.untyped_storage(), result.untyped_storage())

    # -- what is put in place of library functions while a rehearsal runs

    @contextlib.contextmanager
    def installed(self):
        import transformers
        import transformers.masking_utils as masks
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
        with contextlib.ExitStack() as stack:
            def put(owner, name, value):
                before = getattr(owner, name)
                setattr(owner, name, value)
                stack.callback(setattr, owner, name, before)

            put(nn.Module, "_apply", _apply)
            put(transformers.PreTrainedModel, "initialize_weights", lambda model, *a, **k: None)
            put(torch.cuda, "is_available", lambda: False)
            if self.on("untraced_masks"):
                for name in ("is_tracing", "is_torchdynamo_compiling", "is_fx_symbolic_tracing"):
                    if hasattr(masks, name):
                        put(masks, name, lambda *a, **k: False)
            if self.on("boolean_dropout_mask"):
                put(nn.functional, "dropout", _dropout)
            if self.on("cuda_autocast_asked"):
                asked = torch.is_autocast_enabled
                put(torch, "is_autocast_enabled", lambda *a: asked("cpu"))
            if self.on("loss_in_fp32"):
                entropy = nn.functional.cross_entropy
                put(nn.functional, "cross_entropy", lambda x, *a, **k: entropy(x.float(), *a, **k))
            import peft.tuners.lora.dora as dora
            whole = dora.dequantize_module_weight
            put(dora, "dequantize_module_weight",
                lambda layer: layer.dequantized(forward=False) if hasattr(layer, "dequantized") else whole(layer))
            sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
            ALL_ATTENTION_FUNCTIONS["sdpa"] = self.attention
            stack.callback(ALL_ATTENTION_FUNCTIONS.__setitem__, "sdpa", sdpa)
            yield

    def attention(self, module, q, k, v, mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
        half = getattr(torch, self.recipe.half)
        if self.recipe.autocast and self.on("attention_autocast"):
            q, k, v = (one.to(half) for one in (q, k, v))
        groups = module.num_key_value_groups
        kernel = self.device.plain if mask is None else self.device.masked
        if not self.on("attention_kernels"):
            kernel = "efficient"
        if kernel == "flash" and q.dtype != torch.float32:
            return Flash.apply(q, k, v).transpose(1, 2).contiguous(), None
        k, v = _repeated(k, groups), _repeated(v, groups)
        bias = None if mask is None else self.bias(q, mask)
        if kernel == "triton":
            return Triton.apply(q, k, v, bias).transpose(1, 2).contiguous(), None
        kernel = torch.ops.aten._scaled_dot_product_efficient_attention
        made = kernel(q, k, v, bias, True, dropout, mask is None, scale=scaling)[0]
        return made.transpose(1, 2).contiguous(), None

    def bias(self, q, mask):
        length = mask.shape[-1]
        padded = -(-length // 8) * 8 if self.on("aligned_bias") else length
        bias = q.new_empty(mask.shape[0], 1, mask.shape[2], padded)[..., :length]
        return bias.expand(-1, q.shape[1], -1, -1)


def _repeated(x, groups):
    if groups == 1:
        return x
    return x[:, :, None].expand(-1, -1, groups, -1, -1).reshape(x.shape[0], -1, *x.shape[2:])


def _dropout(x, p=0.5, training=True, inplace=False):
    return torch.native_dropout(x, p, True)[0] if training and p else x


def _apply(module, fn, recurse=True):
    """`Module.to` cannot swap fake parameters in place."""
    for child in module.children() if recurse else ():
        child._apply(fn)
    with torch.no_grad():
        for name, weight in module._parameters.items():
            if weight is not None and (new := fn(weight)) is not weight:
                module._parameters[name] = nn.Parameter(new, requires_grad=weight.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


class Flash(torch.autograd.Function):
    """Flash attention's own buffers."""

    @staticmethod
    def forward(ctx, q, k, v):
        batch, heads, tokens, width = q.shape
        out = q.new_empty(batch, tokens, heads, width).transpose(1, 2)
        ctx.save_for_backward(q, k, v, out, q.new_empty(batch, heads, tokens, dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, *_ = ctx.saved_tensors
        batch, heads, tokens, width = q.shape
        rows = -(-tokens // 128) * 128
        scratch = [q.new_empty(batch, rows, heads, width, dtype=torch.float32),
                   q.new_empty(batch, heads, rows, dtype=torch.float32)]
        made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        if k.shape[1] != heads:
            scratch += [torch.empty_like(q), torch.empty_like(q)]
        return made


class Triton(torch.autograd.Function):
    """ROCm's attention: it sums dQ where it stands, so that no fp32 copy of it is made."""

    @staticmethod
    def forward(ctx, q, k, v, bias):
        batch, heads, tokens, width = q.shape
        out = q.new_empty(batch, tokens, heads, width).transpose(1, 2)
        kept = (q, k, v, out, q.new_empty(batch, heads, tokens, dtype=torch.float32))
        ctx.save_for_backward(*(kept if bias is None else (*kept, bias)))
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, _, sums, *_ = ctx.saved_tensors
        scratch = torch.empty_like(sums)
        made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        del scratch
        return (*made, None)
