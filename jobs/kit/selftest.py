"""Tests the environment that the kit's programs run in, on the device that they would get: a line of JSON.

usage: selftest.py [--stack cpu|cuda|rocm]       the stack that is to be found; without: whatever is there

Each check has a name, whether it passed, and what it found: the packages, the device, a kernel against the CPU's result,
bitsandbytes' nf4 on it, and one step of the kit's own training of a model of a few thousand weights. Loads no weights,
fetches nothing, takes seconds. What only some recipes need (nf4) may fail without failing the whole.
Exit codes: 0; 69 a package is missing, 70 something is there and does not work, 72 the stack's device is not visible.
"""
import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time

if sys.pycache_prefix is None:
    sys.dont_write_bytecode = True   # the folder of the kit may be read-only, and is not ours to fill

import failures

#: Distribution, and whether nothing works without it.
PACKAGES = (("torch", True), ("transformers", True), ("peft", True), ("accelerate", True), ("bitsandbytes", False), ("gguf", False))
SHAPES = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2}
SETTINGS = {"model_config": SHAPES, "rank": 4, "seq_len": 16, "response_len": 4, "batch": 1, "optimizer": "adamw",
            "gradient_checkpointing": True, "memory_fixes": ["logits_to_keep"]}


class Missing(Exception):
    pass


def packages():
    found = {}
    for name, _ in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    missing = [name for name, needed in PACKAGES if needed and found[name] is None]
    if missing:
        raise Missing(f"not installed: {', '.join(missing)}; jobs/kit/setup installs them")
    return found


def device():
    import torch
    stack = "rocm" if torch.version.hip else "cuda" if torch.version.cuda else "cpu"
    if not torch.cuda.is_available():
        return {"stack": "cpu", "built_for": stack, "devices": []}
    cards = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {"stack": stack, "built_for": stack,
            "devices": [{"name": card.name, "total_mib": card.total_memory >> 20} for card in cards]}


def kernel():
    import torch
    torch.manual_seed(0)
    left, right = torch.randn(64, 64), torch.randn(64, 64)
    where = "cuda" if torch.cuda.is_available() else "cpu"
    off = ((left.to(where) @ right.to(where)).cpu() - left @ right).abs().max().item()
    if not off < 0.1:   # a card may compute in TF32
        raise ArithmeticError(f"a product of two matrices on {where} is off by {off}")
    return {"on": where, "largest_difference": round(off, 6)}


def nf4():
    import bitsandbytes.functional as functional
    import torch
    where = "cuda" if torch.cuda.is_available() else "cpu"
    weights = torch.randn(64, 64, dtype=torch.bfloat16, device=where)
    packed, state = functional.quantize_4bit(weights, quant_type="nf4")
    off = (functional.dequantize_4bit(packed, state) - weights).abs().mean().item()
    if not off < 0.2:
        raise ArithmeticError(f"nf4 and back is off by {off} on average")
    return {"on": where, "mean_difference": round(off, 4)}


def step(quant):
    import torch
    from measure.card import Watched
    from step import model as models, one_step, recipe as recipes
    card = Watched()
    recipe = recipes.read({**SETTINGS, "quant": quant, "autocast": quant != "fp32"})
    torch.manual_seed(0)
    config = models.config_of(recipe)
    model = models.ready(recipe, card, config)
    losses = []
    one_step.run(model, one_step.Inputs.made_up(recipe, config, card), recipe, card, losses)
    if not losses or not all(loss == loss and 0 < loss < 100 for loss in losses):
        raise ArithmeticError(f"a training step gave the losses {losses}")
    return {"quant": quant, "loss": round(losses[-1], 4)}


def checks():
    """(name, whether all rests on it, what to do)"""
    yield "packages", True, packages
    yield "device", True, device
    yield "kernel", True, kernel
    yield "step", True, lambda: step("fp32")
    yield "nf4", False, nf4
    yield "step_nf4", False, lambda: step("nf4")


def tested(wanted):
    """(exit code, report)"""
    report = {"status": "ok", "python": platform.python_version(), "interpreter": sys.executable, "checks": []}
    code = 0
    for name, needed, check in checks():
        started = time.monotonic()
        one = {"name": name, "ok": True}
        try:
            one.update(check())
            if name == "device" and wanted and one["stack"] != wanted and not (wanted == "cpu" and not one["devices"]):
                raise failures.Failure("no_gpu", f"no {wanted} device is visible; PyTorch here is built for {one['built_for']}",
                                       failures.NO_GPU)
        except (Exception, SystemExit) as error:   # noqa: a self-test reports whatever it meets
            one.update(ok=False, message=" ".join(str(error).split())[:400] or type(error).__name__)
            if needed:
                missing = isinstance(error, (Missing, ModuleNotFoundError))
                code = error.code if isinstance(error, failures.Failure) else (
                    failures.MISSING_PACKAGE if missing else failures.BROKEN_PACKAGE)
        one["seconds"] = round(time.monotonic() - started, 1)
        report["checks"].append(one)
        if code:
            report["status"] = "failed"
            break
    return code, report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stack", choices=("cpu", "cuda", "rocm"))
    stack = parser.parse_args().stack
    if stack == "cpu":   # a card may be in the machine; this environment has no libraries for it
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            os.environ[name] = "-1"
    code, report = tested(stack)
    print(json.dumps(report), flush=True)
    return code


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.exit(main())
