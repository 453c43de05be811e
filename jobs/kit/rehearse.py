"""Rehearses the training step of a recipe without a card and without weights, and writes its allocation stream.

usage: rehearse.py SETTINGS.json --out STREAM.gz [--mode train|probe] [--device NAME] [--layers N] [--off NAME]...
                   [--ignore SETTING]...                        a setting of the sweep's own that memory does not depend on
       rehearse.py --rows ROWS.jsonl --out-dir DIR [--at-once N]   streams kept by content: what is there is not made again
       rehearse.py --check                                         versions, or the package that is missing

Prints one JSON line a recipe: peaks in MiB, seconds, versions, doubts; or `error` and `message`. NAME is a card's
(`RTX 3060 Ti`) or one of turing, ampere, hopper, blackwell, rocm. Exit code 0; 64 for a recipe that cannot be
rehearsed, 69 where a package is missing, 70 for a fault in here, 71 where host memory ends, 130 when interrupted. A
stream is there whole or not at all.
"""
import argparse
import contextlib
import dataclasses
import gc
import gzip
import json
import os
import signal
import sys
import time

INTERRUPTED = "interrupted; nothing was kept"
OUT_OF_MEMORY = "host memory ended; give the rehearsal more"
#: What systems and libraries say then, where they raise no MemoryError.
NO_MEMORY = ("can't allocate memory", "annot allocate memory", "not enough memory", "failed to map segment",
             "Resource temporarily unavailable", "can't start new thread")


def _interrupted(*_):
    print(json.dumps({"error": "interrupted", "message": INTERRUPTED}), flush=True)
    os._exit(130)


# An exception would abort in the middle of a library's own start. What was told to ignore interrupts goes on doing so.
heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if heeds and __name__ == "__main__":
    signal.signal(signal.SIGINT, _interrupted)
try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from rehearsal import devices, imitations, table, versions
    from rehearsal.machine import Rehearsal
    from rehearsal.recorder import MIB, Recorder
    from step import model as models
    from step import one_step, recipe as recipes
except (ImportError, OSError, MemoryError) as error:   # one line that the agent types
    said = str(error)
    if isinstance(error, MemoryError) or any(sign in said for sign in NO_MEMORY):
        print(json.dumps({"error": "out_of_host_memory", "message": OUT_OF_MEMORY}))
        sys.exit(71)
    if not isinstance(error, ImportError):   # a library that is there, and cannot be loaded
        print(json.dumps({"error": "failed", "message": f"{type(error).__name__}: {said[:300]}"}))
        sys.exit(70)
    print(json.dumps({"error": "missing_package", "package": error.name, "message": said}))
    sys.exit(69)


def rehearse(recipe, device=devices.AMPERE, layers=None, off=()):
    """(recorder, config): the stream of the whole recipe, from the first tensor to the end of its last step."""
    config = models.config_of(recipe)
    _shortened(config, layers)
    recorder = Recorder(imitations.Imitations(recipe, device, off), int(device.workspace_mib * MIB))
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    machine = Rehearsal(recorder, fake, recipe)
    gc.collect()
    gc.freeze()   # libraries are no garbage: the step's own collections need not walk them
    try:
        with recorder.imitations.installed(), _paths(recorder), fake, recorder:
            model = models.ready(recipe, machine, config)
            _named(model, recorder)
            inputs = one_step.Inputs.made_up(recipe, config, machine)
            one_step.run(model, inputs, recipe, machine)
            lines = list(recorder.lines)   # what ends after the last mark is of no interest
            if recorder.out_of_memory:
                raise MemoryError
    finally:
        gc.unfreeze()
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


def _named(model, recorder):
    """Weights, adapters and buffers by the modules that hold them."""
    for path, module in model.named_modules():
        for held in (*module._parameters.values(), *module._buffers.values()):
            if held is not None:
                recorder.belongs(held.untyped_storage(), _short(path))


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
        "device": recorder.imitations.device.name, "seconds": round(seconds, 1), "host_peak_mib": _host_peak_mib(),
        "versions": versions.installed(), "doubts": versions.doubts(recipe, config),
        "off": sorted(recorder.imitations.off),
    }


def _host_peak_mib():
    """The most memory that this process had, where the system says so."""
    try:
        import resource
    except ImportError:   # Windows
        return None
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)   # Linux counts in KiB


def write(path, recorder):
    """Whole or not at all."""
    part = f"{path}.part"
    try:
        with gzip.open(part, "wt", compresslevel=6, encoding="utf-8") as file:
            file.write("\n".join(recorder.lines) + "\n")
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def one(recipe, device, out=None, layers=None, off=()):
    """(exit code, what to print): a rehearsal with every way that it can end."""
    start = time.monotonic()
    try:
        recorder, config = rehearse(recipe, device, layers, off)
        if out:
            write(out, recorder)
        return 0, summary(recipe, config, recorder, time.monotonic() - start)
    except recipes.RecipeError as error:
        return 64, {"error": "bad_recipe", "message": str(error)}
    except MemoryError:
        return 71, {"error": "out_of_host_memory", "message": OUT_OF_MEMORY}
    except KeyboardInterrupt:
        return 130, {"error": "interrupted", "message": INTERRUPTED}
    except Exception as error:   # of the libraries, for a model or version that nobody tried
        # A runtime error of PyTorch's own allocator has no type of its own.
        if any(sign in str(error) for sign in NO_MEMORY):
            return 71, {"error": "out_of_host_memory", "message": OUT_OF_MEMORY}
        where = _innermost(error)
        said = (str(error).strip().splitlines() or [""])[0][:300]
        return 70, {"error": "failed", "message": f"{type(error).__name__}: {said} ({where})"}


def _innermost(error):
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "no place"


class Parser(argparse.ArgumentParser):
    """Wrong arguments end as all else does: a line of JSON and a code of the list above."""

    def error(self, message):
        print(json.dumps({"error": "usage", "message": message}), flush=True)
        self.exit(64, f"{self.format_usage()}{message}\n")


def main():
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--mode", choices=("train", "probe"), default="train")
    parser.add_argument("--device", default="ampere")
    parser.add_argument("--workspace-mib", type=float)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--off", action="append", default=[])
    parser.add_argument("--ignore", action="append", default=[])
    parser.add_argument("--rows")
    parser.add_argument("--out-dir")
    parser.add_argument("--at-once", type=int, default=1)
    asked = parser.parse_args()
    if asked.check:
        print(json.dumps({"versions": versions.installed(), "kit": table.kit_hash()}))
        return 0
    if asked.rows:
        if not asked.out_dir:
            parser.error("--rows needs --out-dir")
        return table.run(asked.rows, asked.out_dir, asked.at_once, one)
    if not asked.settings:
        parser.error("give SETTINGS.json, or --rows")
    device = devices.named(asked.device)
    if device is None:
        parser.error(f"--device: no card `{asked.device}` is known; give its years: {', '.join(devices.ALL)}")
    if asked.layers is not None and asked.layers < 1:
        parser.error("--layers: at least 1")
    for name in asked.off:
        if name not in imitations.ALL:
            parser.error(f"--off: no imitation `{name}`; known: {', '.join(imitations.ALL)}")
    if asked.workspace_mib is not None:
        device = dataclasses.replace(device, workspace_mib=asked.workspace_mib)
    try:
        recipe = recipes.read_file(asked.settings, asked.mode, asked.ignore)
    except (recipes.RecipeError, OSError) as error:
        code, said = 64, {"error": "bad_recipe", "message": str(error)}
    except ValueError as error:
        code, said = 64, {"error": "bad_recipe", "message": f"{asked.settings}: {error}"}
    else:
        code, said = one(recipe, device, asked.out, asked.layers, asked.off)
    print(json.dumps(said))
    return code


if __name__ == "__main__":
    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = main()
    except KeyboardInterrupt:   # between two rehearsals of a table
        print(json.dumps({"error": "interrupted", "message": INTERRUPTED}))
        code = 130
    sys.stdout.flush()
    # An interrupted backward's thread still runs, and an orderly end would wait for it, or abort.
    os._exit(code)
