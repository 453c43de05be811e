"""Rehearses the training step of a recipe without a card and without weights, and writes its allocation stream.

usage: rehearse.py SETTINGS.json --out STREAM.gz [--mode train|probe] [--device NAME] [--layers N] [--off NAME]...
       rehearse.py --rows ROWS.jsonl --out-dir DIR [--at-once N]   streams kept by content: what is there is not made again
       rehearse.py --check                                         versions, or the package that is missing

Prints one JSON line a recipe: peaks in MiB, seconds, versions, doubts. NAME is a card's (`RTX 3060 Ti`) or one of
turing, ampere, hopper, blackwell, rocm. Exit code 0; 64 for a recipe that cannot be rehearsed, 69 where a package is
missing.
"""
import argparse
import contextlib
import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from rehearsal import devices, imitations, versions
    from rehearsal.machine import Rehearsal
    from rehearsal.recorder import MIB, Recorder
    from step import model as models
    from step import one_step, recipe as recipes
except ImportError as error:   # one line that the agent types
    print(json.dumps({"error": "missing_package", "package": error.name, "message": str(error)}))
    sys.exit(69)


def rehearse(recipe, device=devices.AMPERE, layers=None, off=()):
    """(recorder, config): the stream of the whole recipe, from the first tensor to the end of its last step."""
    config = models.config_of(recipe)
    _shortened(config, layers)
    recorder = Recorder(imitations.Imitations(recipe, device, off), int(device.workspace_mib * MIB))
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    machine = Rehearsal(recorder, fake, recipe)
    with recorder.imitations.installed(), _paths(recorder), fake, recorder:
        model = models.ready(recipe, machine, config)
        inputs = one_step.Inputs.made_up(recipe, config, machine)
        one_step.run(model, inputs, recipe, machine)
        lines = list(recorder.lines)   # what ends after the last mark is of no interest
    recorder.lines = lines
    return recorder, config


def _shortened(config, layers):
    if layers:
        text = config.get_text_config()
        text.num_hidden_layers = layers
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:layers]


@contextlib.contextmanager
def _paths(recorder):
    """Each module's path, while it runs."""
    names = {}

    def enter(module, args):
        name = names.get(id(module))
        if name is None:
            names.update({id(child): path for path, child in module.named_modules()} if not names else {})
            name = names.get(id(module), type(module).__name__)
        recorder.entered(module, _short(name))

    hooks = [torch.nn.modules.module.register_module_forward_pre_hook(enter),
             torch.nn.modules.module.register_module_forward_hook(lambda *a: recorder.left(), always_call=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _short(name):
    """`base_model.model.model.language_model.layers.3.mlp` is `layers.3.mlp`."""
    at = name.find("layers.")
    if at >= 0:
        return ("vision." if "vision" in name[:at] else "") + name[at:]
    return name.rsplit(".", 1)[-1] or "model"


def summary(recipe, config, recorder, seconds):
    mib = {f"{name}_mib": round(peak / MIB, 1) for name, peak in recorder.peaks.items()}
    return {
        "pre_step_mib": mib.get("pre_step_mib"), "after_load_mib": mib.get("after_load_mib"),
        "forward_peak_mib": mib.get("forward_mib"), "backward_peak_mib": mib.get("backward_mib"),
        "peak_allocated_mib": round(recorder.peak / MIB, 1), "events": len(recorder.lines),
        "workspace_mib": recorder.workspace / MIB,
        "device": recorder.imitations.device.name, "seconds": round(seconds, 1), "versions": versions.installed(),
        "doubts": versions.doubts(recipe, config), "off": sorted(recorder.imitations.off),
    }


def write(path, recorder):
    """Whole or not at all."""
    part = f"{path}.part"
    with gzip.open(part, "wt", compresslevel=6, encoding="utf-8") as file:
        file.write("\n".join(recorder.lines) + "\n")
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--mode", choices=("train", "probe"), default="train")
    parser.add_argument("--device", default="ampere")
    parser.add_argument("--workspace-mib", type=float)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--off", action="append", default=[])
    parser.add_argument("--rows")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--out-dir")
    parser.add_argument("--at-once", type=int, default=1)
    asked = parser.parse_args()
    if asked.check:
        print(json.dumps({"versions": versions.installed(), "kit": kit_hash()}))
        return 0
    if asked.rows:
        return rows(asked)
    if not asked.settings and not asked.row:
        parser.error("give SETTINGS.json, or --rows")
    try:
        if asked.row:
            row = json.loads(asked.row)
            recipe, device = recipes.of_row(row), devices.of(row.get("gpu"), row.get("vendor") or "")
        else:
            recipe = recipes.read_file(asked.settings, asked.mode)
            device = devices.ALL.get(asked.device) or devices.of(asked.device)
        if asked.workspace_mib is not None:
            device = dataclasses.replace(device, workspace_mib=asked.workspace_mib)
        start = time.monotonic()
        recorder, config = rehearse(recipe, device, asked.layers, asked.off)
    except (recipes.RecipeError, OSError, json.JSONDecodeError) as error:
        print(json.dumps({"error": "bad_recipe", "message": str(error)}))
        return 64
    if asked.out:
        write(asked.out, recorder)
    print(json.dumps(summary(recipe, config, recorder, time.monotonic() - start)))
    return 0


def kit_hash():
    """Of everything that a rehearsal runs: another kit makes other streams."""
    folder, summed = pathlib.Path(__file__).resolve().parent, hashlib.sha256()
    for path in sorted([folder / "rehearse.py", *folder.glob("step/*.py"), *folder.glob("rehearsal/*.py")]):
        summed.update(path.name.encode() + b"\0" + path.read_bytes())
    return summed.hexdigest()[:16]


def content_key(row):
    """Rows of one content share one stream, whatever was measured of them and under whatever limit."""
    recipe, device = recipes.of_row(row), devices.of(row.get("gpu"), row.get("vendor") or "")
    said = {**dataclasses.asdict(recipe), "memory_fixes": sorted(recipe.memory_fixes), "device": dataclasses.asdict(device),
            "versions": versions.installed(), "kit": kit_hash()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def rows(asked):
    """A line each on standard output, in the order of the rows; each stream is made in a process of its own."""
    folder = pathlib.Path(asked.out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lines, todo = [], {}
    for number, line in enumerate(pathlib.Path(asked.rows).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            try:
                key = content_key(row)
            except recipes.RecipeError as error:
                lines.append((number, None, {"error": "bad_recipe", "message": str(error)}))
                continue
            lines.append((number, key, None))
            if not (folder / f"{key}.json").exists():
                todo.setdefault(key, row)
    _made(folder, list(todo.items()), max(1, asked.at_once))
    for number, key, said in lines:
        known = folder / f"{key}.json"
        if said is None:
            said = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {"error": "failed"}
        stream = f"{key}.gz" if key and "error" not in said else None
        print(json.dumps({"line": number, "stream": stream, **said}))
    return 0


def _made(folder, todo, at_once):
    running = []
    while todo or running:
        while todo and len(running) < at_once:
            key, row = todo.pop(0)
            command = [sys.executable, os.path.abspath(__file__), "--row", json.dumps(row), "--out", str(folder / f"{key}.gz")]
            running.append((key, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
        for one in list(running):
            key, process = one
            try:
                said, complained = process.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                continue
            running.remove(one)
            last = said.strip().splitlines()[-1] if said.strip() else ""
            if process.returncode in (0, 64) and last:
                part = folder / f"{key}.json.part"
                part.write_text(last, encoding="utf-8")
                part.replace(folder / f"{key}.json")
            else:
                print(complained[-2000:], file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
