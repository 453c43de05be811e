"""Runs bake.py as sweep does, on cases of its own: a folder, a configuration, the variables, a report."""
import json
import os
import subprocess
import sys
import tempfile

KIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT = "You route commands to capabilities. " * 20


def case(name, text, wanted, *tags, arguments=None, **more):
    expect = {"capability": wanted} if arguments is None else {"capability": wanted, "arguments": arguments}
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": text}]
    return {"id": name, "messages": messages, "expect": expect, "tags": list(tags), **more}


CASES = [
    case("on-1", "lights on in the kitchen", "lights.on", "train", arguments={"room": "kitchen"}),
    case("on-2", "make the hall bright", "lights.on", "held_out", arguments={"room": "hall"}),
    case("off-1", "dark please", "lights.off", "held_out"),
    case("quoted-1", "he wrote: lights on", "none", "train", "guard"),
    case("quoted-2", "the note says lights on", "none", "held_out", "guard"),
    case("counter-1", "he wrote: hello. now lights on in the hall", "lights.on", "held_out", capability="counterweight"),
]


def right(text):
    """What a perfect router says."""
    found = next(one for one in CASES if one["messages"][-1]["content"] == text)["expect"]
    return json.dumps({"capability": found["capability"], **found.get("arguments", {})})


class Job:
    """One folder of one trial. `start` starts the bake and gives the process."""

    def __init__(self, cases=CASES, **stage):
        self.folder = tempfile.TemporaryDirectory()
        self.stage = {"cases": self.path("cases.jsonl"), "context_len": 2048, "max_tokens": 64, "retry_wait": 0,
                      "timeout": 20, "model": "router", **stage}
        self.params, self.inputs, self.environment, self.arguments = {}, {}, {}, []
        self.write(cases)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def write(self, cases, name="cases.jsonl"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in cases)

    def start(self):
        config = {"seed": 7, "params": self.params, "stage": self.stage, "inputs": self.inputs}
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        environment = {
            **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "SWEEP_CONFIG": self.path("config.json"),
            "SWEEP_REPORT": self.path("report.jsonl"), "SWEEP_DIR": self.folder.name, "SWEEP_ATTEMPT": "1",
            "http_proxy": "http://127.0.0.1:9",   # a proxy of the host's is not for this machine
            **self.environment,
        }
        environment.pop("no_proxy", None)
        environment.pop("NO_PROXY", None)
        command = [sys.executable, os.path.join(KIT, "bake.py"), *self.arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self):
        """Exit code and both outputs."""
        process = self.start()
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def report(self):
        with open(self.path("report.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def result(self):
        return self.report()[-1]["result"]

    def answers(self):
        """The lines of the file of cases but its head."""
        with open(self.path("cases-bake.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file][1:]
