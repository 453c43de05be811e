"""Asks the real fitcheck-llm about every measured row of this repository and writes fitcheck.jsonl beside this file.

Run it with a Python that has fitcheck-llm: `python vram/data/rivals/fitcheck.py`. It needs no GPU and no network: each
model's fields are laid into a temporary hub cache, which is the tool's own documented way to work offline. Its code is
neither changed nor copied. What it refuses is written down as refused, in its own words; what it cannot be told of a
row is listed in `untold`.
"""

import atexit
import json
import os
import pathlib
import shutil
import sys
import tempfile
from importlib.metadata import version

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent
# This file is named as the package it asks; its own folder must not be searched first.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != HERE]
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_CACHE"] = tempfile.mkdtemp(prefix="fitcheck-cache-")
atexit.register(shutil.rmtree, os.environ["HF_HUB_CACHE"])

import fitcheck  # noqa: E402  (reads the variables above when it is imported)

# Settings that change memory and that no option of the tool stands for.
UNTOLD = ("logits_to_keep", "save_on_cpu", "mlp_chunk_tokens", "bf16_lm_head", "dora", "dropout")
OPTIMIZERS = {"adamw": "adamw", "adamw8bit": "adam8bit", "adamw_8bit": "adam8bit", "paged_adamw8bit": "adam8bit"}


def models():
    """The published fields of known models, by the last part of their names, in lower case."""
    found = {}
    for path in sorted((DATA / "models").glob("*.json")):
        model = json.loads(path.read_text())
        for name in model["names"]:
            found[name] = model["config"]
    return found


MODELS = models()


def config_of(model):
    """Lays the model's config.json into the cache, then has the tool read it as it reads any cached model."""
    folder = pathlib.Path(os.environ["HF_HUB_CACHE"]) / ("models--" + model.replace("/", "--"))
    snapshot = folder / "snapshots" / ("0" * 40)
    if not snapshot.exists():
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0" * 40)
        (snapshot / "config.json").write_text(json.dumps(MODELS[model.split("/")[-1].lower()]))
    return fitcheck.fetch_model_config(model)


def card(row, kind):
    """A card of the tool's own list, or the usable memory of the real one; the tool takes 95 % of what it is given."""
    if kind == "t4":
        return fitcheck.get_gpu("t4")
    if kind == "h200" and row.get("limit_mib") is None:
        return fitcheck.get_gpu("h200")
    if kind == "RX 7900 XTX":
        return fitcheck.get_gpu("RX 7900 XTX", 24_560)
    return fitcheck.get_gpu("8 GB", 8_192)


def ask(row, kind):
    """One row as options of the tool. A probe takes no optimizer step: plain SGD keeps no state either."""
    try:
        config = config_of(row["model"])
        quant = {"4bit": "nf4", "bf16": "none"}.get(row["quant"], row["quant"])
        training = fitcheck.TrainingConfig(
            precision=row["base_dtype"],
            quantization=quant,
            double_quant=bool(row["double_quant"]) and quant == "nf4",
            optimizer=OPTIMIZERS[row["optimizer"]] if row["optimizer"] else "sgd",
            batch_size=row["batch"],
            seq_len=row["seq_len"],
            lora_rank=row["rank"],
            lora_targets=row["targets"],
            grad_checkpoint=row["gradient_checkpointing"],
            flash_attn=row["attention"] != "eager",
        )
        report = fitcheck.estimate(config, training, card(row, kind))
    except ValueError as refusal:
        return {"refused": str(refusal).split(". ")[0]}
    return {
        "tensors_mib": round(report.total_mib - report.overhead_mib, 1),
        "total_mib": round(report.total_mib, 1),
        "verdict": report.verdict,
        "untold": [name for name in UNTOLD if row.get(name)],
    }


def table(name):
    for line, text in enumerate((DATA / f"{name}.jsonl").read_text().splitlines(), 1):
        yield {"table": name, "row": str(line), **ask(json.loads(text), name)}


def seeds():
    """The seeds name a model and a recipe rather than every field; what they share is filled in here."""
    shared = {
        "model": "unsloth/gemma-3-4b-it", "base_dtype": "bf16", "double_quant": True, "batch": 1,
        "attention": "sdpa", "gradient_checkpointing": True, "logits_to_keep": True, "save_on_cpu": True,
        "mlp_chunk_tokens": 1024, "bf16_lm_head": True,
        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    }
    document = json.loads((DATA / "seeds.json").read_text())
    for at, probe in enumerate(document["cross_gpu"]["probes"]):
        row = {**shared, **probe, "optimizer": None}
        yield {"table": "seeds", "row": f"cross-GPU probe {at}", **ask(row, probe["gpu"])}
    for older in document["measurements"]:
        if older.get("rank") and older["mode"] in ("probe", "real"):
            real = older["mode"] == "real"
            row = {**shared, **older, "quant": "nf4", "optimizer": "adamw_8bit" if real else None}
            row["seq_len"] = older.get("longest_example_tokens") or 7177
            yield {"table": "seeds", "row": older["id"], **ask(row, "8 GB")}


def main():
    lines = [{"tool": "fitcheck-llm", "version": version("fitcheck-llm")}]
    lines += [*table("h200"), *table("t4"), *seeds()]
    (HERE / "fitcheck.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
