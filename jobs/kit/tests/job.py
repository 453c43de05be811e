"""Runs digits.py as sweep does: a folder, a configuration, the variables, a report."""

import json
import os
import subprocess
import sys
import tempfile

KIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SETTINGS = {
    "learning_rate": 0.2,
    "hidden": 8,
    "l2": 0.001,
    "examples": 120,
    "held_out": 60,
    "noise": 0.2,
    "batch": 10,
    "epochs": 10,
}


class Job:
    """One folder of one trial. `start` starts a kind of job and gives the process."""

    def __init__(self, **settings):
        self.folder = tempfile.TemporaryDirectory()
        self.settings = {**SETTINGS, **settings}
        self.inputs = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def start(self, kind):
        config = {"seed": 7, "params": self.settings, "stage": {"passes": 2}, "inputs": self.inputs}
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SWEEP_CONFIG": self.path("config.json"),
            "SWEEP_REPORT": self.path(f"{kind}.jsonl"),
            "SWEEP_CHECKPOINT_DIR": self.path("checkpoints"),
            "SWEEP_DIR": self.folder.name,
            "SWEEP_ATTEMPT": "1",
        }
        command = [sys.executable, os.path.join(KIT, "digits.py"), kind]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, kind):
        """Exit code and both outputs; a result becomes an input of what follows."""
        process = self.start(kind)
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            self.inputs[kind] = self.result(kind)
        return process.returncode, out, err

    def report(self, kind):
        with open(self.path(f"{kind}.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def result(self, kind):
        return self.report(kind)[-1]["result"]

    def model(self):
        with open(self.path("checkpoints", "model.json"), "rb") as file:
            return file.read()

    def checkpoints(self):
        """Names of the whole ones, oldest first; none while the folder is not there yet."""
        try:
            names = os.listdir(self.path("checkpoints"))
            return sorted(name for name in names if name.startswith("step-") and name.endswith(".json"))
        except FileNotFoundError:
            return []
