"""Trains a trial's LoRA adapter on a data file, with the step that was rehearsed and probed.

usage: train.py [--data FILE] [--held-out FILE]

Data: --data and --held-out, else the host's dataset (a file, or a folder with train.jsonl and held_out.jsonl); README.md has
the format. Goes on from the newest whole checkpoint in $SWEEP_CHECKPOINT_DIR, exactly, and saves before it ends when asked
to (exit code 75). The adapter is left with its configuration and where it came from (sweep.json). It needs real weights:
a training on random ones would be for nothing. Exit codes: README.md.
"""
import os
import pathlib
import shutil
import sys
import time

if sys.pycache_prefix is None:
    sys.dont_write_bytecode = True   # the folder of the kit may be read-only, and is not ours to fill

import failures
import sweep_report


def main(arguments=None):
    parser = failures.Arguments(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--held-out")
    asked = parser.parse_args(arguments)
    stop = sweep_report.Stop()
    config = sweep_report.config()

    import transformers
    from measure.card import Watched
    from training import checkpoints, data, plan as plans, start, trainer

    recipe, plan = plans.read(config)
    seed = int(config["seed"])
    transformers.set_seed(seed)
    begun = start.of(config, recipe, Watched, needs_weights=True)
    tokenizer = begun.weights.tokenizer()
    train_file, held_out_file = asked.data or begun.dataset_file(), asked.held_out or begun.dataset_file(held_out=True)
    if train_file is None:
        raise failures.Failure("missing_file", "no data: give --data, or a `dataset` that this host has", failures.MISSING_FILE)
    examples = data.Examples.read(train_file, tokenizer, recipe, plan.class_balanced)
    held_out = data.Examples.read(held_out_file, tokenizer, recipe) if held_out_file else None

    folder = pathlib.Path(os.environ.get("SWEEP_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    newest = checkpoints.newest(folder)
    if newest:
        print(f"goes on from step {checkpoints.step_of(newest)}", flush=True)
    model = begun.model()
    steps = plan.steps or max(1, round(plan.epochs * _per_epoch(len(examples), recipe.batch, plan.grad_accumulation)))
    args = trainer.arguments(recipe, plan, str(folder), seed, steps, not begun.machine.is_card)
    if held_out is None:
        args.eval_strategy = "no"
    reports = trainer.Reports(sweep_report, begun.machine, plan, stop)
    made = trainer.StepTrainer(
        recipe, plan, begun.machine, data.Batches(tokenizer.pad_token_id, begun.config),
        checkpoints.Keeper(folder, sweep_report), model=model, args=args, train_dataset=examples, eval_dataset=held_out,
        callbacks=[reports])
    began = time.monotonic()
    if newest and checkpoints.step_of(newest) >= steps:
        # The trainer would take one step more.
        made._load_from_checkpoint(str(newest))
        made.state = transformers.TrainerState.load_from_json(str(newest / "trainer_state.json"))
    else:
        made.train(resume_from_checkpoint=str(newest) if newest else None)
    if isinstance(reports.stopped, failures.Failure):
        raise reports.stopped
    if reports.stopped and made.state.global_step < steps:
        print(f"stopped at step {made.state.global_step} of {steps} with a checkpoint", flush=True)
        return sweep_report.AGAIN
    finish(made, begun, recipe, config, examples, held_out, folder, reports, time.monotonic() - began)
    return 0


def _per_epoch(examples, batch, accumulation):
    batches = -(-examples // batch)
    return -(-batches // accumulation)


def finish(made, begun, recipe, config, examples, held_out, folder, reports, seconds):
    from training import checkpoints

    every = {checkpoints.step_of(path): path for path in checkpoints.all_of(folder)}
    if made.state.global_step not in every:
        made._save_checkpoint(made.model, None)
        every = {checkpoints.step_of(path): path for path in checkpoints.all_of(folder)}
    logs = made.state.log_history
    losses = {entry["step"]: entry["loss"] for entry in logs if "loss" in entry}
    held = {entry["step"]: entry["eval_loss"] for entry in logs if "eval_loss" in entry}
    if held_out is not None and made.state.global_step not in held:
        held[made.state.global_step] = made.evaluate()["eval_loss"]
    said = [{"step": step, "path": str(path), "held_out_loss": held.get(step)} for step, path in sorted(every.items())]
    adapter = keep_adapter(every[made.state.global_step], folder / "adapter", origin(config, begun, recipe, examples, held_out))
    peaks = begun.machine.highest()
    sweep_report.memory(**peaks, optimizer_steps=made.state.global_step, weights=begun.weights.path.name,
                        load_order=begun.load_order, **_measured_on(begun, recipe))
    last = held.get(made.state.global_step)
    print(f"{made.state.global_step} steps, loss {losses[max(losses)]:.4f}" +
          (f", held-out loss {last:.4f}" if last is not None else ""), flush=True)
    sweep_report.result({
        "loss": losses[max(losses)], "held_out_loss": last, "steps": made.state.global_step, "adapter": str(adapter),
        "checkpoints": said, "base": str(begun.weights.path), "train_seconds": round(seconds, 2), **peaks})


def _measured_on(begun, recipe):
    from measure import observation
    return {**observation.of_recipe(recipe, begun.config), **observation.machine(begun.machine)}


def origin(config, begun, recipe, examples, held_out):
    """What the adapter came from: enough to make it again."""
    from measure import observation
    file = lambda one: {"name": os.path.basename(one.path), "sha256": one.sha256, "examples": len(one)} if one else None
    return {**{name: config.get(name) for name in ("sweep", "trial", "job", "attempt", "seed", "params", "stage")},
            "base": {"model": recipe.model, "weights": begun.weights.path.name}, "train": file(examples),
            "held_out": file(held_out), "made_with": observation.machine(begun.machine)}


def keep_adapter(checkpoint, folder, provenance):
    """The adapter of the last step under a name that stays, whole or not there."""
    from training import checkpoints
    part = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copyfile(checkpoint / name, part / name)
    checkpoints.write_json(part / "sweep.json", provenance)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(part, folder)
    return folder


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    sys.exit(failures.guarded(main))
