"""Recipes of four layers whose steps were measured block by block on an H200 (vram/data/live-sets.jsonl)."""

import json
import pathlib
import sys

KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(KIT))

DATA = KIT.parent.parent / "vram" / "data"
SHAPES = {"gemma3-4b": "gemma-3-4b", "llama31-8b": "llama-3.1-8b", "qwen3-4b": "qwen3-4b", "llama32-3b": "llama-3.2-3b"}
MIB = 2**20


def rows():
    with open(DATA / "live-sets.jsonl", encoding="utf-8") as file:
        return [_whole(json.loads(line)) for line in file]


def _whole(row):
    config = json.loads((DATA / "models" / f"{SHAPES[row['model']]}.json").read_text(encoding="utf-8"))["config"]
    if "vision_config" in config:
        config["vision_config"]["vision_use_head"] = False   # as in h200.jsonl
    optimizer = row["optimizer"] if isinstance(row["optimizer"], str) else "adamw8bit"
    return {**row, "model_config": config, "optimizer": optimizer, "mlp_chunk_tokens": row["mlp_chunk_tokens"] or None}


def rehearsed(row, off=()):
    """{forward, backward}: peaks in MiB, blocks rounded to 512 bytes."""
    import rehearse
    from rehearsal import devices
    from step import recipe
    recorder, _ = rehearse.rehearse(recipe.of_row(row), devices.HOPPER, row["num_hidden_layers"], off)
    return {name: recorder.peaks[name] / MIB for name in ("forward", "backward")}


def off_pct(row, peaks):
    return {name: (peaks[name] / row[f"{name}_peak_mib"] - 1) * 100 for name in peaks}
