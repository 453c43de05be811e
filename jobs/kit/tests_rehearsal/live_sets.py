"""Recipes of four layers whose steps were measured block by block on an H200 (vram/data/live-sets.jsonl), and the
rehearsals of them: each is made once, however many tests look at it.

Refuses to fit anything: what a rehearsal says is held against the measurement as it is.
"""
import collections
import functools
import json
import pathlib
import sys

KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(KIT))

DATA = KIT.parent.parent / "vram" / "data"
SHAPES = {"gemma3-4b": "gemma-3-4b", "llama31-8b": "llama-3.1-8b", "qwen3-4b": "qwen3-4b", "llama32-3b": "llama-3.2-3b"}
MIB = 2**20
BLOCK = 512


@functools.cache
def rows():
    with open(DATA / "live-sets.jsonl", encoding="utf-8") as file:
        return tuple(_whole(json.loads(line)) for line in file)


def _whole(row):
    config = json.loads((DATA / "models" / f"{SHAPES[row['model']]}.json").read_text(encoding="utf-8"))["config"]
    if "vision_config" in config:
        config["vision_config"]["vision_use_head"] = False   # as in h200.jsonl
    optimizer = row["optimizer"] if isinstance(row["optimizer"], str) else "adamw8bit"
    return {**row, "model_config": config, "optimizer": optimizer, "mlp_chunk_tokens": row["mlp_chunk_tokens"] or None}


@functools.cache
def recorded(number, off=()):
    """The recorder of the rehearsal of one row."""
    import rehearse
    from rehearsal import devices
    from step import recipe
    row = rows()[number]
    return rehearse.rehearse(recipe.of_row(row), devices.HOPPER, row["num_hidden_layers"], off)[0]


def off_pct(number, off=()):
    """{forward, backward}: how far the rehearsed peak is from the measured one, in per cent."""
    row, peaks = rows()[number], recorded(number, off).peaks
    return {name: (peaks[name] / MIB / row[f"{name}_peak_mib"] - 1) * 100 for name in ("forward", "backward")}


def alive(lines, stage):
    """[bytes] of the blocks made since mark 1 that are alive at the first step's highest moment up to a stage's end."""
    live, count, total, best, step, before = {}, 0, 0, (-1, None), False, set()
    for line in lines:
        if line == "m 1":
            step, before = True, set(live)
        elif line == {"forward": "m 2", "backward": "m 3"}[stage]:
            break
        elif line.startswith("a "):
            live[count] = -(-int(line.split(" ", 2)[1]) // BLOCK) * BLOCK
            total += live[count]
            count += 1
            if step and total > best[0]:
                best = total, dict(live)
        elif line.startswith("f "):
            total -= live.pop(int(line[2:]), 0)
    return [size for number, size in best[1].items() if number not in before]


def measured_alive(row, stage, least_mib):
    """The same of the card's, as ({mib: how many}, [mib]): sizes known each, and those known of single blocks only.

    The table has blocks of one line of code in one entry, with their sum: of several, the sizes may differ.
    """
    each, single = collections.Counter(), []
    for entry in row[stage]["alive"]:
        size = entry["mib"] / entry["blocks"]
        if size >= least_mib:
            each[round(size, 1)] += entry["blocks"]
            if entry["blocks"] == 1:
                single.append(entry["mib"])
    return each, single
