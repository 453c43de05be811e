"""A small real learning task for any machine: noisy 8x8 digits, a network with one hidden layer, plain Python.

    digits.py probe | train | bake

The data is made from the seed, so there is nothing to download, and every figure is measured. Training saves
checkpoints and goes on from the newest one exactly: the same numbers as if it had never stopped. Not meant to be fast.
"""

import json
import os
import sys
import time

if sys.pycache_prefix is None:
    sys.dont_write_bytecode = True   # the folder of the kit may be read-only, and is not ours to fill

import digits_data
import digits_net
import sweep_report

NO_MODEL = 66  # exit code: the file to read is not there
BAD_NUMBERS = 65  # exit code: the settings lead nowhere
KEPT = 2  # checkpoints: the newest, and one more should that one be damaged


class Task:
    """One job's settings, read and checked once."""

    def __init__(self, config):
        self.config = config
        self.seed = int(config["seed"])
        params = config["params"]
        try:
            self.rate = float(params["learning_rate"])
            self.hidden = int(params["hidden"])
            self.decay = float(params["l2"])
            self.batch = int(params["batch"])
            self.epochs = int(params["epochs"])
            self.data = digits_data.Data(
                self.seed, int(params["examples"]), int(params["held_out"]), float(params["noise"])
            )
        except (KeyError, TypeError, ValueError) as error:
            sys.exit(_complain(f"bad or missing setting: {error}", sweep_report.BAD_CONFIG))
        self.per_epoch = max(1, len(self.data.train) // self.batch)
        self.steps = self.epochs * self.per_epoch

    def fresh(self):
        """Everything that training changes, before its first step."""
        rng = digits_data.stream(self.seed, "train")
        net = digits_net.Net.fresh(self.hidden, rng)
        return {"step": 0, "order": [], "loss": None, "net": net, "rng": rng}


def main(arguments):
    work = {"probe": probe, "train": train, "bake": bake}
    if len(arguments) != 1 or arguments[0] not in work:
        return _complain("usage: digits.py probe|train|bake", 64)
    return work[arguments[0]](Task(sweep_report.config()))


def probe(task):
    """Two real steps with everything loaded that a training holds, so that the peak is a training's."""
    state = task.fresh()
    for _ in range(2):
        started = time.perf_counter()
        one_step(task, state)
        seconds = time.perf_counter() - started
        sweep_report.metric(state["step"], loss=state["loss"], step_seconds=seconds)
    state["net"].loss(task.data.held_out)
    json.dumps(packed(state))
    peak = sweep_report.peak_resident_mib()
    sweep_report.memory(peak_resident_mib=peak, steps=2, batch=task.batch)
    sweep_report.result({"peak_resident_mib": peak, "step_seconds": seconds})
    return 0


def train(task):
    stop = sweep_report.Stop()
    folder = os.environ["SWEEP_CHECKPOINT_DIR"]
    state = newest(folder) or task.fresh()
    if state["step"]:
        print(f"goes on from step {state['step']} of {task.steps}", flush=True)
    while state["step"] < task.steps:
        started = time.perf_counter()
        one_step(task, state)
        seconds = time.perf_counter() - started
        if not state["loss"] < 1e6:
            return _complain(f"the loss left all bounds at step {state['step']}: smaller learning_rate", BAD_NUMBERS)
        if state["step"] % 25 == 0:
            sweep_report.metric(state["step"], loss=state["loss"], step_seconds=seconds)
        if state["step"] % task.per_epoch == 0:
            on_epoch(task, state, folder)
        if stop.asked:
            save(folder, state)
            print(f"stopped at step {state['step']} with a checkpoint", flush=True)
            return sweep_report.AGAIN
    return finish(task, state, folder)


def one_step(task, state):
    """One mini-batch. Its examples, and so all that follows, depend on the state alone."""
    if not state["order"]:
        state["order"] = list(range(len(task.data.train)))
        state["rng"].shuffle(state["order"])
    chosen, state["order"] = state["order"][: task.batch], state["order"][task.batch :]
    if len(state["order"]) < task.batch:
        state["order"] = []
    examples = [task.data.train[number] for number in chosen]
    state["loss"] = state["net"].step(examples, task.rate, task.decay)
    state["step"] += 1


def on_epoch(task, state, folder):
    save(folder, state)
    sweep_report.metric(state["step"], loss=state["loss"], held_out_loss=state["net"].loss(task.data.held_out))
    sweep_report.progress(state["step"] / task.steps)


def finish(task, state, folder):
    path = os.path.abspath(os.path.join(folder, "model.json"))
    write_whole(path, state["net"].packed())
    loss = state["net"].loss(task.data.train)
    held_out_loss = state["net"].loss(task.data.held_out)
    print(f"loss {loss:.4f}, held-out loss {held_out_loss:.4f}", flush=True)
    sweep_report.memory(peak_resident_mib=sweep_report.peak_resident_mib(), steps=task.steps, batch=task.batch)
    sweep_report.result({"loss": loss, "held_out_loss": held_out_loss, "model": path})
    return 0


def bake(task):
    """Scores the trained model: each pass draws the noise of the held-out digits anew."""
    net = trained_net(task.config)
    passes = int((task.config.get("stage") or {}).get("passes", 1))
    lines, scores = [], []
    for number in range(1, passes + 1):
        cases = task.data.cases(number)
        answers = [net.answer(pixels) for pixels, _ in cases]
        for case, ((_, label), answer) in enumerate(zip(cases, answers)):
            line = {"pass": number, "case": case, "label": label, "answer": answer, "ok": answer == label}
            lines.append(json.dumps(line))
        scores.append(accuracy(cases, answers))
        sweep_report.metric(number, held_out=scores[-1])
        sweep_report.progress(number / passes)
    known = accuracy(task.data.train, [net.answer(pixels) for pixels, _ in task.data.train])
    name = f"cases-{os.environ.get('SWEEP_ATTEMPT', '1').rpartition('/')[2]}.jsonl"
    write_text(os.path.join(os.environ["SWEEP_DIR"], name), "\n".join(lines) + "\n")
    held_out = sum(scores) / len(scores)
    print(f"held out {held_out:.4f}, train {known:.4f}", flush=True)
    sweep_report.memory(peak_resident_mib=sweep_report.peak_resident_mib(), passes=passes)
    sweep_report.result({"held_out": held_out, "train": known, "passes": scores, "cases": len(task.data.held_out)})
    return 0


def accuracy(cases, answers):
    right = sum(answer == label for (_, label), answer in zip(cases, answers))
    return right / len(cases)


def trained_net(config):
    path = ((config.get("inputs") or {}).get("train") or {}).get("model")
    if not path:
        sys.exit(_complain("there is no trained model: the configuration has no result of a train job", NO_MODEL))
    try:
        with open(path, encoding="utf-8") as file:
            return digits_net.Net.unpacked(json.load(file))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(_complain(f"cannot read the trained model {path}: {error}", NO_MODEL))


def packed(state):
    version, numbers, gauss = state["rng"].getstate()
    rng = [version, list(numbers), gauss]
    return {**state, "net": state["net"].packed(), "rng": rng}


def save(folder, state):
    path = os.path.join(folder, f"step-{state['step']:08d}.json")
    write_whole(path, packed(state))
    sweep_report.checkpoint(path, state["step"])
    for name in checkpoints(folder)[:-KEPT]:
        os.remove(os.path.join(folder, name))


def checkpoints(folder):
    """Oldest first; what is not whole yet has another name."""
    return sorted(name for name in os.listdir(folder) if name.startswith("step-") and name.endswith(".json"))


def newest(folder):
    """The state of the newest checkpoint that can be read, or None."""
    os.makedirs(folder, exist_ok=True)
    for name in reversed(checkpoints(folder)):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                state = json.load(file)
            version, numbers, gauss = state["rng"]
            state["rng"] = digits_data.stream(0, "")
            state["rng"].setstate((version, tuple(numbers), gauss))
            state["net"] = digits_net.Net.unpacked(state["net"])
            return state
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"cannot use the checkpoint {name}: {error}", file=sys.stderr, flush=True)
    return None


def write_whole(path, value):
    write_text(path, json.dumps(value))


def write_text(path, text):
    """Whole or not at all, whenever this process or its machine dies."""
    partial = f"{path}.{os.getpid()}.tmp"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _complain(message, code):
    print(message, file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
