"""Runs a recipe's step for real on a card and records what it took: one row in the format of vram/data, and the whole
allocation stream from the framework's own history (without stacks, which is cheap).

usage: record.py SETTINGS.json [--mode train|probe] [--limit-mib N] [--out STREAM.gz] [--losses]
       record.py --rows ROWS.jsonl --out-dir DIR      (each row in a process of its own: a cache is never shared)

Weights are random, made from the shapes: peaks depend on shapes only, and the row says so.
Exit code 0 (also where it ran out of memory: that is a measurement); 64 for a bad recipe, 69 where a package is missing,
78 without a card.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import time

try:
    import torch
    from step import machine, model as models, one_step, recipe as recipes
except ImportError as error:
    print(json.dumps({"error": "missing_package", "package": error.name, "message": str(error)}))
    sys.exit(69)

MIB = 2**20
#: Marks are blocks of a few bytes that nothing else asks for: 100 + their number.
MARK = 100


class Recorded(machine.Card):
    """A card that notes its peaks at each mark."""

    def __init__(self, limit_mib=None):
        super().__init__()
        self.limit_mib, self.peaks, self.steps, self.marks = limit_mib, {}, [], []

    def loaded(self):
        self.peaks["after_load_mib"] = _mib(torch.cuda.memory_allocated())

    def mark(self, number):
        # Kept until the end: what is freed at once would be taken by the next block.
        self.marks.append(torch.empty(MARK + number, dtype=torch.uint8, device=self.device))
        if number == 1:
            self.peaks["pre_step_mib"] = _mib(torch.cuda.memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            if self.limit_mib:
                total = torch.cuda.get_device_properties(self.device).total_memory
                torch.cuda.set_per_process_memory_fraction(self.limit_mib * MIB / total)
        peak = _mib(torch.cuda.max_memory_allocated())
        # Forward's and backward's are of the first step.
        if number == 2:
            self.peaks.setdefault("forward_peak_mib", peak)
        if number == 3:
            self.peaks.setdefault("backward_peak_mib", peak)
            self.steps.append([peak, _mib(torch.cuda.max_memory_reserved())])


def _mib(size):
    return round(size / MIB, 1)


def record(recipe, limit_mib=None, stream_path=None, with_losses=False):
    """The row; it holds no settings but those the caller gave."""
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=5_000_000)
    card, losses, wanted = Recorded(limit_mib), [] if with_losses else None, None
    status, start = "ok", time.monotonic()
    try:
        config = models.config_of(recipe)
        torch.manual_seed(0)   # so that losses of two recipes can be compared
        model = models.ready(recipe, card, config)
        inputs = one_step.Inputs.made_up(recipe, config, card)
        one_step.run(model, inputs, recipe, card, losses)
    except torch.OutOfMemoryError as error:
        status, wanted = "oom", _wanted(str(error))
    peaks = {"peak_allocated_mib": _mib(torch.cuda.max_memory_allocated()),
             "peak_reserved_mib": _mib(torch.cuda.max_memory_reserved())}
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    row = {
        "status": status, "oom_wanted_mib": wanted, **card.peaks, **peaks, "per_step_peaks_mib": card.steps,
        "requested_peak_mib": _mib(stats.get("requested_bytes.all.peak", 0)),
        "context_mib": _mib(total - free - torch.cuda.memory_reserved()),
        "seconds": round(time.monotonic() - start, 1), "weights": "random", "gpu": torch.cuda.get_device_name(),
        "vendor": "amd" if torch.version.hip else "nvidia", "os": sys.platform, "torch": torch.__version__,
        "limit_mib": limit_mib,
    }
    if losses:
        row["losses"] = losses
    if stream_path:
        row["events"] = write(stream_path)
    return row


def _wanted(text):
    """`Tried to allocate 1.25 GiB.`"""
    words = text.split("Tried to allocate ", 1)[-1].split()
    scale = {"GiB": 1024, "MiB": 1, "KiB": 1 / 1024, "bytes": 1 / MIB}
    try:
        return round(float(words[0]) * scale[words[1].rstrip(".")], 2)
    except (IndexError, KeyError, ValueError):
        return None


def write(path):
    """The history as a stream: `a`, `f`, `S` and `F` in the order of time, marks read off their sizes."""
    trace = torch.cuda.memory._snapshot(device=torch.cuda.current_device())["device_traces"][torch.cuda.current_device()]
    numbers, count, part = {}, 0, f"{path}.part"
    with gzip.open(part, "wt", compresslevel=6, encoding="utf-8") as file:
        for entry in trace:
            # An out of memory has no address.
            action, size, address = entry["action"], entry.get("size", 0), entry.get("addr")
            if action == "alloc":
                numbers[address] = count
                count += 1
                mark = MARK < size <= MARK + 4
                file.write(f"m {size - MARK}\n" if mark else f"a {size}\n")
            elif action == "free_completed":
                number = numbers.pop(address, None)
                if number is not None:
                    file.write(f"f {number}\n")
            elif action in ("segment_alloc", "segment_map"):
                file.write(f"S {size}\n")
            elif action in ("segment_free", "segment_unmap"):
                file.write(f"F {size}\n")
    os.replace(part, path)
    return len(trace)


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
        return 78
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
