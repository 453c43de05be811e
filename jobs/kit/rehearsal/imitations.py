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
    "fused_4bit",             # few rows are multiplied by a 4-bit weight that is not made whole
    "softmax_product",        # softmax's backward makes the product of gradient and result first
    "half_softmax",           # softmax takes fp16 and gives fp32 without a copy, and back
    "loss_in_fp32",           # under CUDA's autocast cross entropy runs in fp32
)


aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
#: Rows; bitsandbytes/backends/cuda/ops.py.
MOST_FUSED = 1536
#: Of PyTorch's versions from 2.12 on, around a mode's own code.
WRAPPERS = ("_dynamo/eval_frame.py", "torch/_compile.py", "torch/utils/_python_dispatch.py")


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
        if func is torch.ops.aten._local_scalar_dense.default:
            return True   # "are all tokens attended to?": yes
        return None

    def after(self, recorder, func):
        """The handle is asked for, and with it the workspace, when the product's own block is there."""
        if func not in PRODUCTS or not self.on("blas_workspaces") or not recorder.workspace:
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
        """The engine adds to a gradient where it stands, unless that is a view of another block."""
        if func is not torch.ops.aten.add.Tensor or not self.on("accumulate_in_place"):
            return False
        first = args[0]
        if not isinstance(first, torch.Tensor) or (first.shape, first.dtype) != (result.shape, result.dtype):
            return False
        if getattr(first, "rehearsed_view", False) or not _by_the_engine():
            return False
        return recorder.storage_moved(first.untyped_storage(), result.untyped_storage())

    def fused(self, rows, layer):
        """Whether the product takes bitsandbytes' own kernel, by that library's own table for the card."""
        if not self.on("fused_4bit") or rows > MOST_FUSED or layer.in_features % 64:
            return False
        if self.device is devices.ROCM:
            return rows <= 8
        try:
            return _choice(self.device.name, layer.compute_dtype, rows, layer.out_features, layer.in_features)
        except (ImportError, AttributeError, TypeError):   # a version that has no such kernel
            return False

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
            if self.on("half_softmax"):
                put(nn.functional, "softmax", self.softmax)
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
        kernel = self.device.plain if mask is None else self.device.masked
        if not self.on("attention_kernels"):
            kernel = "efficient"
        half = getattr(torch, self.recipe.half)
        casts = self.recipe.autocast and self.on("attention_autocast")
        cast = (lambda x: x.to(half)) if casts else (lambda x: x)
        if kernel == "flash" and (casts or q.dtype != torch.float32):
            return Flash.apply(cast(q), cast(k), cast(v)).transpose(1, 2).contiguous(), None
        groups = module.num_key_value_groups
        k, v = _repeated(k, groups), _repeated(v, groups)
        q, k, v = cast(q), cast(k), cast(v)
        kernel = "efficient" if kernel == "flash" else kernel
        bias = None if mask is None else self.bias(q, mask, kernel)
        return Whole.apply(q, k, v, bias, kernel).transpose(1, 2).contiguous(), None

    def softmax(self, x, dim=None, _stacklevel=3, dtype=None):
        """aten/src/ATen/native/SoftMax.cpp: fp16 to fp32 is one kernel on a device; bf16 is cast first there, too."""
        if x.dtype == torch.float16 and dtype == torch.float32:
            return HalfSoftmax.apply(x, self.on("softmax_product"))
        return torch.softmax(x, dim, dtype=dtype)

    def bias(self, q, mask, kernel):
        """A boolean mask in the scores' type; the memory-efficient kernel wants its rows aligned to 8."""
        length = mask.shape[-1]
        plain = q.new_empty(mask.shape)
        padded = -(-length // 8) * 8
        if kernel != "efficient" or padded == length or not self.on("aligned_bias"):
            return plain
        return q.new_empty((*mask.shape[:-1], padded))[..., :length]


def _choice(name, *product):
    import bitsandbytes.backends.cuda.ops as ops
    before, ops._gpu_dispatch_props = ops._gpu_dispatch_props, lambda name: devices.ALL[name].multiprocessors
    try:
        return ops._gemm_4bit_use_custom_cuda(name, *product)
    finally:
        ops._gpu_dispatch_props = before


def _by_the_engine():
    """Whether an operation was asked for by no Python code but the call of backward."""
    frame = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename.replace("\\", "/").endswith(WRAPPERS):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("graph.py")


def _repeated(x, groups):
    return x if groups == 1 else Repeat.apply(x, groups)


class Repeat(torch.autograd.Function):
    """Keys or values for each head of queries; their gradient comes tokens first and is summed from a copy."""

    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return x[:, :, None].expand(-1, -1, groups, -1, -1).reshape(x.shape[0], -1, *x.shape[2:])

    @staticmethod
    def backward(ctx, grad):
        copied = grad.clone(memory_format=torch.contiguous_format)
        return copied.view(grad.shape[0], -1, ctx.groups, *grad.shape[2:]).sum(2), None


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


class HalfSoftmax(torch.autograd.Function):
    """Of fp16 scores in fp32; its gradient is fp16 again."""

    @staticmethod
    def forward(ctx, x, product):
        ctx.product = product
        made = torch.empty_like(x, dtype=torch.float32)
        ctx.save_for_backward(made)
        return made

    @staticmethod
    def backward(ctx, grad):
        made, = ctx.saved_tensors
        scratch = torch.empty_like(made) if ctx.product else None
        given = torch.empty_like(made, dtype=torch.float16)
        del scratch
        return given, None


class Flash(torch.autograd.Function):
    """Flash attention's own buffers: dQ is summed in fp32, rows rounded to 128 and heads to 32 (256 above 192)."""

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
        wide = -(-width // 32) * 32 if width <= 192 else 256
        scratch = [q.new_empty(batch, rows, heads, wide, dtype=torch.float32),
                   q.new_empty(batch, heads, rows, dtype=torch.float32)]
        made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        if k.shape[1] != heads:
            scratch += [torch.empty_like(q), torch.empty_like(q)]
        return made


class Whole(torch.autograd.Function):
    """Kernels that want a head of keys for each of queries: the memory-efficient one, cuDNN's, and ROCm's, which sums
    dQ where it stands while the others make an fp32 copy of it."""

    @staticmethod
    def forward(ctx, q, k, v, bias, kernel):
        batch, heads, tokens, width = q.shape
        ctx.kernel, ctx.rows = kernel, -(-tokens // 32) * 32 if kernel == "efficient" else tokens
        out = q.new_empty(batch, tokens, heads, width).transpose(1, 2)
        kept = (q, k, v, q.new_empty(batch, heads, ctx.rows, dtype=torch.float32), out)
        # They end from the last to the first.
        ctx.save_for_backward(*(kept if bias is None else (bias, *kept)))
        return out

    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors   # all live until the kernel has ended
        q = saved[-5]
        batch, heads, tokens, width = q.shape
        made = [q.new_empty(batch, tokens, heads, width).transpose(1, 2) for _ in range(3)]
        numel = (0 if ctx.kernel == "triton" else q.numel()) + q.shape[0] * q.shape[1] * ctx.rows
        scratch = q.new_empty(numel, dtype=torch.float32)
        del scratch, saved
        return (*made, None, None)
