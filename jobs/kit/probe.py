"""Measures what a trial's step takes, on the device that it is given: peaks, time, the allocation stream.

usage: probe.py [--data FILE]

How, says `step` of the sweep file's [probe]:
* trainer (default): the training's own trainer with its optimizer, two steps on the longest example: a training's real
  peak.
* one-step: one forward and backward without autocast or optimizer, as older measurements were made.

Examples are those of --data, else of the host's dataset, else made up from seq_len and response_len. Weights are the
host's, else random ones of the same shapes; the observation says which. Trains nothing that is kept.
Exit codes: README.md.
"""
import os
import sys
import tempfile
import time

if sys.pycache_prefix is None:
    sys.dont_write_bytecode = True   # the folder of the kit may be read-only, and is not ours to fill

import failures
import sweep_report

#: A driver takes 150 to 800 MiB for a process; more, or less than nothing, is somebody else's.
LARGEST_CONTEXT_MIB = 1500
#: Others came or went while it measured.
OTHERS_CHANGED_MIB = 64


def main(arguments=None):
    parser = failures.Arguments(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    asked = parser.parse_args(arguments)
    config = sweep_report.config()
    from training import plan as plans, start
    from step import recipe as recipes
    recipe, plan = plans.read(config)
    step = (config.get("stage") or {}).get("step") or "trainer"
    if step not in STEPS:
        raise recipes.RecipeError(f"step: {step!r} is not one of {', '.join(STEPS)}")
    if step == "one-step":
        params = {name: value for name, value in config["params"].items() if not name.startswith("x_")}
        recipe = recipes.read(params, "probe", list(vars(plan)))
    else:
        import dataclasses
        plan = dataclasses.replace(plan, grad_accumulation=1)
    return measure(config, asked.data, step, recipe, plan, start)


def measure(config, data_file, step, recipe, plan, start):
    import torch
    from measure import observation, others
    from measure.card import Recorded

    began = time.monotonic()
    begun = start.of(config, recipe, Recorded)
    card = begun.machine
    held = begun.held_before_mib
    examples, source = _examples(data_file, recipe, begun)
    error = None
    try:
        model = begun.model()
        times = STEPS[step](model, begun, recipe, plan, examples, config)
    except (torch.OutOfMemoryError, RuntimeError) as caught:
        if (failures.told(caught) or ("",))[0] != "gpu_oom":
            raise
        error, times = str(caught), []   # not the exception: it holds the frames, and they the blocks
    said = {
        **observation.of_recipe(recipe, begun.config), **observation.machine(card), **observation.outcome(card, error),
        "source": "probe", "probe_step": step, "optimizer_steps": 2 if step == "trainer" else 0,
        "weights": str(begun.weights.path.name) if begun.weights else "random", "data": source,
        "load_order": begun.load_order, "held_by_others_mib": held, "seconds": round(time.monotonic() - began, 1),
        "step_seconds": times[-1] if times else None,
    }
    if card.is_card:
        after = said["held_by_others_after_mib"] = others.held_mib()
        context = said["outside_allocator_mib"] - held if held is not None else 0
        changed = after is not None and held is not None and abs(after - held) > OTHERS_CHANGED_MIB
        if 0 < context < LARGEST_CONTEXT_MIB and not changed:
            said["context_mib"] = round(context, 1)
        # A driver that pages to system memory lets more be reserved than there is.
        said["spilled"] = said["peak_reserved_mib"] + (held or 0) > said["total_mib"]
    stream = sweep_report.stream_file()
    if stream and card.is_card:
        said["events"] = card.write_stream(stream)
    sweep_report.memory(**said)
    if error:
        # After the observation is safe: the agent reads the numbers of the framework's own sentence.
        raise failures.Failure("gpu_oom", error, failures.GPU_OOM, **failures.numbers(error))
    sweep_report.result({name: said.get(name) for name in (
        "peak_allocated_mib", "peak_reserved_mib", "peak_resident_mib", "step_seconds", "weights", "data", "load_order")
        if said.get(name) is not None})
    return 0


def _examples(file, recipe, begun):
    """(the longest example twice, where it comes from)"""
    from training import data
    file = file or begun.dataset_file()
    if file is None or begun.weights is None:
        return data.Examples.made_up(recipe, begun.config.get_text_config().vocab_size, 2 * recipe.batch), "made_up"
    read = data.Examples.read(file, begun.weights.tokenizer(), recipe)
    return read.longest(2 * recipe.batch), "longest"


def _trainer(model, begun, recipe, plan, examples, config):
    from transformers import TrainerCallback
    from training import data, trainer

    times = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            self.began = time.monotonic()

        def on_step_end(self, args, state, control, **_):
            begun.wait()
            times.append(round(time.monotonic() - self.began, 4))
            sweep_report.metric(state.global_step, step_seconds=times[-1])

    with tempfile.TemporaryDirectory() as folder:
        args = trainer.arguments(recipe, plan, folder, int(config["seed"]), 2, not begun.machine.is_card)
        args.save_strategy = args.eval_strategy = "no"
        made = trainer.StepTrainer(recipe, plan, begun.machine, data.Batches(0, begun.config), model=model, args=args,
                                   train_dataset=examples, callbacks=[Clock()])
        made.train()
    begun.machine.mark(4)
    return times


def _one_step(model, begun, recipe, plan, examples, config):
    from step import one_step
    from training import data

    batches = data.Batches(0, begun.config)
    batch = batches.inputs(batches(examples.items[: recipe.batch]), begun.machine.device)
    started = time.monotonic()
    one_step.run(model, batch, recipe, begun.machine)
    begun.wait()
    return [round(time.monotonic() - started, 4)]


STEPS = {"trainer": _trainer, "one-step": _one_step}

if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    sys.exit(failures.guarded(main))
