"""Rehearses the training step of a recipe without a card and without weights, and writes its allocation stream.

usage: rehearse.py SETTINGS.json --out STREAM.gz [--mode train|probe] [--workspace-mib N] [--layers N] [--off NAME]...
       rehearse.py --rows ROWS.jsonl --out-dir DIR [--limit N]

Prints one JSON line: peaks in MiB, seconds, versions, doubts. Exit code 0; 64 for a recipe that cannot be rehearsed,
69 where a package is missing.
"""
import argparse
import contextlib
import gzip
import json
import os
import sys
import time

try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from rehearsal import imitations, versions
    from rehearsal.machine import Rehearsal
    from rehearsal.recorder import MIB, Recorder
    from step import model as models
    from step import one_step, recipe as recipes
except ImportError as error:   # one line that the agent types
    print(json.dumps({"error": "missing_package", "package": error.name, "message": str(error)}))
    sys.exit(69)


def rehearse(recipe, workspace_mib=32.0, layers=None, off=()):
    """(recorder, config): the stream of the whole recipe, from the first tensor to the end of its last step."""
    config = models.config_of(recipe)
    _shortened(config, layers)
    recorder = Recorder(imitations.Imitations(recipe, off), int(workspace_mib * MIB))
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
        "workspace_mib": recorder.workspace / MIB, "seconds": round(seconds, 1), "versions": versions.installed(),
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
    parser.add_argument("--out")
    parser.add_argument("--mode", choices=("train", "probe"), default="train")
    parser.add_argument("--workspace-mib", type=float, default=32.0)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--off", action="append", default=[])
    parser.add_argument("--rows")
    parser.add_argument("--out-dir")
    asked = parser.parse_args()
    if asked.rows:
        return rows(asked)
    if not asked.settings:
        parser.error("give SETTINGS.json, or --rows")
    try:
        recipe = recipes.read_file(asked.settings, asked.mode)
        start = time.monotonic()
        recorder, config = rehearse(recipe, asked.workspace_mib, asked.layers, asked.off)
    except (recipes.RecipeError, OSError, json.JSONDecodeError) as error:
        print(json.dumps({"error": "bad_recipe", "message": str(error)}))
        return 64
    if asked.out:
        write(asked.out, recorder)
    print(json.dumps(summary(recipe, config, recorder, time.monotonic() - start)))
    return 0


def rows(asked):
    """Every row of a table: a stream each, and a line each on standard output."""
    os.makedirs(asked.out_dir, exist_ok=True)
    with open(asked.rows, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            start = time.monotonic()
            try:
                recipe = recipes.of_row(row)
                recorder, config = rehearse(recipe, asked.workspace_mib, asked.layers, asked.off)
            except recipes.RecipeError as error:
                print(json.dumps({"line": number, "error": "bad_recipe", "message": str(error)}), flush=True)
                continue
            write(os.path.join(asked.out_dir, f"{number}.gz"), recorder)
            print(json.dumps({"line": number, **summary(recipe, config, recorder, time.monotonic() - start)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
