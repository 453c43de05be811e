"""Runs a recipe's step for real on a card and records what it took: one row in the format of vram/data, and the whole
allocation stream from the framework's own history (without stacks, which is cheap).

usage: record.py SETTINGS.json [--mode train|probe] [--limit-mib N] [--out STREAM.gz] [--losses]
       record.py --rows ROWS.jsonl --out-dir DIR      (each row in a process of its own: a cache is never shared)

Weights are random, made from the shapes: peaks depend on shapes only, and the row says so.
Exit code 0 (also where it ran out of memory: that is a measurement); 64 for a bad recipe, 69 where a package is missing,
72 without a card.
"""
import argparse
import json
import os
import subprocess
import sys
import time

try:
    import torch
    from measure import observation
    from measure.card import Recorded
    from step import model as models, one_step, recipe as recipes
except ImportError as error:
    print(json.dumps({"error": "missing_package", "package": error.name, "message": str(error)}))
    sys.exit(69)


def record(recipe, limit_mib=None, stream_path=None, with_losses=False):
    """The row; it holds no settings but those the caller gave."""
    card, losses, failed = Recorded(limit_mib), [] if with_losses else None, None
    start = time.monotonic()
    try:
        config = models.config_of(recipe)
        torch.manual_seed(0)   # so that losses of two recipes can be compared
        model = models.ready(recipe, card, config)
        inputs = one_step.Inputs.made_up(recipe, config, card)
        one_step.run(model, inputs, recipe, card, losses)
    except torch.OutOfMemoryError as error:
        failed = str(error)
    row = {**observation.outcome(card, failed), "seconds": round(time.monotonic() - start, 1), "weights": "random",
           **observation.machine(card)}
    row["context_mib"] = row.pop("outside_allocator_mib")
    if losses:
        row["losses"] = losses
    if stream_path:
        row["events"] = card.write_stream(stream_path)
    return row


def rows(asked):
    """A table of settings, some at a time, each in a process of its own."""
    os.makedirs(asked.out_dir, exist_ok=True)
    with open(asked.rows, encoding="utf-8") as file:
        todo = [(number, json.loads(line)) for number, line in enumerate(file, 1) if line.strip()]
    running, done = [], {}

    def finish(one):
        number, row, process = one
        said, complained = process.communicate()
        try:
            measured = json.loads(said.strip().splitlines()[-1])
        except (IndexError, ValueError):
            measured = {"status": "failed", "message": complained[-400:]}
        done[number] = {"line": number, **row, **measured}
        table = os.path.join(asked.out_dir, "rows.jsonl")
        with open(f"{table}.part", "w", encoding="utf-8") as kept:
            kept.writelines(json.dumps(done[one]) + "\n" for one in sorted(done))
        os.replace(f"{table}.part", table)
        print(json.dumps({"line": number, **{key: measured.get(key) for key in ("status", "peak_allocated_mib", "seconds", "message")}}),
              flush=True)

    for number, row in todo:
        while len(running) >= asked.at_once:
            ended = [one for one in running if one[2].poll() is not None]
            for one in ended:
                running.remove(one)
                finish(one)
            if not ended:
                time.sleep(0.2)
        name = os.path.join(asked.out_dir, f"{number}.gz")
        env = dict(os.environ)
        if row.get("expandable_segments"):
            env["PYTORCH_CUDA_ALLOC_CONF"] = env["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        command = [sys.executable, os.path.abspath(__file__), "--row", json.dumps(row)] + (["--out", name] if not asked.no_streams else [])
        running.append((number, row, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)))
    for one in running:
        finish(one)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="?")
    parser.add_argument("--mode", choices=("train", "probe"), default="train")
    parser.add_argument("--limit-mib", type=float)
    parser.add_argument("--out")
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--rows")
    parser.add_argument("--out-dir")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--no-streams", action="store_true")
    asked = parser.parse_args()
    if asked.rows:
        return rows(asked)
    if not torch.cuda.is_available():
        print(json.dumps({"error": "no_gpu", "message": "no CUDA or ROCm device is visible"}))
        return 72
    try:
        if asked.row:
            row = json.loads(asked.row)
            measured = record(recipes.of_row(row), row.get("limit_mib"), asked.out, bool(row.get("with_losses")))
        else:
            measured = record(recipes.read_file(asked.settings, asked.mode), asked.limit_mib, asked.out, asked.losses)
    except (recipes.RecipeError, OSError, json.JSONDecodeError) as error:
        print(json.dumps({"error": "bad_recipe", "message": str(error)}))
        return 64
    print(json.dumps(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
