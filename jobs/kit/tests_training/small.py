"""A language model of a few thousand weights in a folder as the hub has them, data for it, and a job around them."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(KIT))
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")   # a CPU is the device here, whatever is in the machine

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

torch.set_num_threads(1)   # the model is small, and the machine has other things to do
transformers.utils.logging.disable_progress_bar()

WORDS = ("turn set make the light lamp music timer on off in hall attic cellar to for minutes one two three four five "
         "six seven user assistant a b c d").split()
TEMPLATE = ("{% for message in messages %}<s> {{ message['role'] }} {{ message['content'] }} </s> {% endfor %}"
            "{% if add_generation_prompt %}<s> assistant {% endif %}")
SETTINGS = {"quant": "fp32", "autocast": False, "rank": 4, "alpha": 8, "dropout": 0.1, "seq_len": 48, "response_len": 8,
            "batch": 2, "steps": 8, "learning_rate": 1e-2, "optimizer": "adamw", "gradient_checkpointing": False,
            "eval_every": 4, "save_every": 2, "lr_schedule": "linear", "warmup": 0.25}


def make_model(folder):
    """With a tokenizer of whole words."""
    words = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>",
                                                bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                      pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def write_data(path, count, kinds=("a", "b", "b", "c")):
    lines = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        text = f"turn the {WORDS[4 + number % 4]} {'on' if kind == 'a' else 'off'} in the {WORDS[11 + number % 3]}"
        lines.append(json.dumps({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": kind}],
                                 "class": kind}))
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


class Job:
    """One trial's folder. `run` runs a program in this process, `start` in one of its own."""

    def __init__(self, model, data, held_out, stage=None, **settings):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        self.arguments = ["--data", str(data), "--held-out", str(held_out)]
        config = {"sweep": "s", "trial": "s/1", "job": "s/1/train", "attempt": 1, "seed": 7, "stage": stage or {},
                  "params": {"model": str(model), **SETTINGS, **settings}}
        config["params"] = {name: value for name, value in config["params"].items() if value is not None}
        (self.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        self.variables = {"SWEEP_CONFIG": str(self.folder / "config.json"), "SWEEP_REPORT": str(self.folder / "report.jsonl"),
                          "SWEEP_CHECKPOINT_DIR": str(self.checkpoints), "SWEEP_DIR": str(self.folder)}

    @property
    def checkpoints(self):
        return self.folder / "checkpoints"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kept.cleanup()

    def run(self, program, arguments=None):
        """(exit code, standard output, standard error)"""
        import failures
        arguments = self.arguments if arguments is None else arguments
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        os.environ.update(self.variables)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = failures.guarded(lambda: program.main(arguments))
        finally:
            os.environ.clear()
            os.environ.update(before)
        return code, out.getvalue(), err.getvalue()

    def start(self, program, arguments=None, **variables):
        command = [sys.executable, "-W", "ignore", str(KIT / program), *(self.arguments if arguments is None else arguments)]
        return subprocess.Popen(command, env={**os.environ, **self.variables, **variables}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def report(self):
        return [json.loads(line) for line in (self.folder / "report.jsonl").read_text().splitlines()]

    def result(self):
        return self.report()[-1]["result"]

    def losses(self):
        return [line["metric"]["loss"] for line in self.report() if "loss" in line.get("metric", {})]

    def adapter(self):
        return (self.checkpoints / "adapter" / "adapter_model.safetensors").read_bytes()
