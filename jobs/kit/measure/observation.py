"""One measured step as one flat object, with the field names of vram/data: the recipe, the peaks, and all they hung on.

Holds figures of this process and this device only; a figure that nobody measured is null or left out.
"""
import importlib.metadata
import os
import platform
import re
import sys

import torch

from .card import mib

PACKAGES = ("transformers", "peft", "accelerate", "bitsandbytes")


def outcome(card, error=None):
    """Peaks and the ending of the step: `ok`, or `oom` with what it wanted."""
    said = {"status": "ok" if error is None else "oom", "oom_wanted_mib": wanted(error) if error else None,
            **card.peaks, "per_step_peaks_mib": card.steps, "limit_mib": card.limit_mib}
    if not card.is_card:
        return {**said, **card.highest()}
    stats, (free, total) = torch.cuda.memory_stats(), torch.cuda.mem_get_info()
    said.update(peak_allocated_mib=mib(torch.cuda.max_memory_allocated()),
                peak_reserved_mib=mib(torch.cuda.max_memory_reserved()),
                requested_peak_mib=mib(stats.get("requested_bytes.all.peak", 0)), total_mib=mib(total),
                # Of this process and all others, beyond what the allocator reserved.
                outside_allocator_mib=mib(total - free - torch.cuda.memory_reserved()))
    return said


def wanted(text):
    """`Tried to allocate 1.25 GiB.`"""
    match = re.search(r"Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)", text)
    scale = {"GiB": 1024, "MiB": 1, "KiB": 1 / 1024, "bytes": 1 / 2**20}
    return round(float(match[1]) * scale[match[2]], 2) if match else None


def machine(card):
    """What the figures were measured on, and with."""
    said = {"os": sys.platform, "python": platform.python_version(), "torch": torch.__version__,
            "allocator": os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "",
            "expandable_segments": "expandable_segments:True" in (os.environ.get("PYTORCH_ALLOC_CONF") or
                                                                  os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "")}
    for name in PACKAGES:
        try:
            said[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            said[name] = None
    if card.is_card:
        said.update(gpu=torch.cuda.get_device_name(), vendor="amd" if torch.version.hip else "nvidia",
                    cuda=torch.version.cuda, hip=torch.version.hip, pinned_to=os.environ.get("CUDA_VISIBLE_DEVICES") or
                    os.environ.get("HIP_VISIBLE_DEVICES"))
    return said


def of_recipe(recipe, config):
    """The settings that memory depends on, as the tables name them."""
    fixes = recipe.memory_fixes
    return {
        "model": recipe.model, "model_config": recipe.model_config or config.to_diff_dict(), "quant": recipe.quant,
        "double_quant": recipe.double_quant if recipe.quant in ("nf4", "fp4") else None,
        "base_dtype": "fp32" if recipe.quant == "fp32" else "fp16" if recipe.half == "float16" else "bf16",
        "rank": recipe.rank, "targets": list(recipe.targets), "rslora": recipe.rslora, "alpha": recipe.alpha,
        "dropout": recipe.dropout, "dora": recipe.dora, "batch": recipe.batch, "seq_len": recipe.seq_len,
        "response_len": recipe.response, "attention": recipe.attention, "autocast": recipe.autocast,
        "gradient_checkpointing": recipe.gradient_checkpointing, "optimizer": recipe.optimizer,
        "logits_freed_before_backward": recipe.logits_freed_before_backward,
        "save_on_cpu": "save_on_cpu" in fixes, "save_on_cpu_skips_weights": "save_on_cpu_skips_weights" in fixes,
        "mlp_chunk_tokens": recipe.mlp_chunk_tokens if "chunked_mlp" in fixes else None,
        "loss_chunk_tokens": recipe.loss_chunk_tokens if "chunked_loss" in fixes else None,
        "bf16_lm_head": "bf16_lm_head" in fixes, "logits_to_keep": "logits_to_keep" in fixes,
        "cache_emptied_before_adapters": "cache_emptied_before_adapters" in fixes,
    }
