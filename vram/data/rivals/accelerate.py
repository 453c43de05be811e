"""Computes what `accelerate estimate-memory` answers for the models of this repository; writes accelerate.jsonl.

Run it with a Python that has accelerate, transformers and torch: `python vram/data/rivals/accelerate.py`. The command
itself first looks the model up on a hub; here the published fields of vram/data/models stand in for that look-up, and
everything after it is the package's own code, called, not copied. No weights, no GPU, no network.
"""

import json
import pathlib
import sys
from importlib.metadata import version

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent
# This file is named as the package it asks; its own folder must not be searched first.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != HERE]

import torch  # noqa: E402
from accelerate import init_empty_weights  # noqa: E402
from accelerate.commands.estimate import estimate_training_usage  # noqa: E402
from accelerate.utils import calculate_maximum_sizes  # noqa: E402
from transformers import AutoConfig, AutoModel  # noqa: E402

MIB = 1 << 20
# The divisors of the command for each dtype it offers.
SHARE = {"float32": 1, "float16": 2, "int8": 4, "int4": 8}
# As the tables of measured steps name them.
MODELS = {
    "google/gemma-3-4b-it": "gemma-3-4b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.2-3B-Instruct": "llama-3.2-3b",
    "Qwen/Qwen3-4B": "qwen3-4b",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2.5-1.5b",
    "HuggingFaceTB/SmolLM2-1.7B": "smollm2-1.7b",
    "HuggingFaceTB/SmolLM2-360M": "smollm2-360m",
    "HuggingFaceTB/SmolLM2-135M": "smollm2-135m",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": "tinyllama-1.1b",
}


def sizes(file):
    fields = json.loads((DATA / "models" / f"{file}.json").read_text())["config"]
    config = AutoConfig.for_model(**fields)
    with init_empty_weights():
        model = AutoModel.from_config(config, torch_dtype=torch.float32)
    total, _ = calculate_maximum_sizes(model)
    answer = {"total_mib": {}, "training_mib": {}}
    for dtype, share in SHARE.items():
        training = max(estimate_training_usage(total, dtype).values())
        answer["total_mib"][dtype] = round(total / share / MIB, 1)
        # -1 is what the command prints as N/A.
        answer["training_mib"][dtype] = None if training == -1 else round(training / MIB, 1)
    return answer


def main():
    lines = [{"tool": "accelerate", "version": version("accelerate"), "transformers": version("transformers")}]
    lines += [{"model": model, **sizes(file)} for model, file in MODELS.items()]
    (HERE / "accelerate.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
