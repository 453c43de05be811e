"""Examples of a training: read from JSON lines, turned into tokens, put together into batches.

A line is {"messages": [...]} whose last message is the response, or {"prompt": "...", "response": "..."}, and may name its
`class`. Only the response's tokens are learned. An example that is longer than the recipe says is refused with its line,
never cut: what is cut is not what memory was planned for, and not what was asked for.
"""
import collections
import hashlib
import json
import pathlib

import torch

from failures import BAD_DATA, MISSING_FILE, Failure
from step.loss import IGNORED
from step.one_step import Inputs

#: Names of the two files in a dataset that is a folder.
TRAIN, HELD_OUT = ("train.jsonl",), ("held_out.jsonl", "held-out.jsonl", "eval.jsonl")


class Examples(torch.utils.data.Dataset):
    """Tokens of one file: each item has `ids`, `labels`, and `weight` where classes are balanced."""

    def __init__(self, items, path=None, sha256=None):
        self.items, self.path, self.sha256 = items, path, sha256

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]

    @classmethod
    def read(cls, path, tokenizer, recipe, balanced=False):
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise Failure("missing_file", f"the data {path} cannot be read: {error.strerror}", MISSING_FILE) from error
        items, classes = [], []
        # Only a line feed ends a line: JSON may hold what Python takes for the end of one.
        for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                example = json.loads(line)
                item = _tokens(example, tokenizer)
                if not isinstance(example.get("class"), (str, int, type(None))):
                    raise ValueError("its `class` is no name")
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise Failure("bad_data", f"{where}: expected messages that end with the assistant's, or prompt and response: "
                              f"{error}", BAD_DATA) from error
            _check(item, recipe, where)
            items.append(item)
            classes.append(example.get("class"))
        if not items:
            raise Failure("bad_data", f"{path}: no example", BAD_DATA)
        if balanced:
            _balance(items, classes, path)
        return cls(items, str(path), hashlib.sha256(content).hexdigest())

    def longest(self, count):
        """The longest example, so many times: its step is the one with the peak."""
        return Examples([max(self.items, key=lambda item: len(item["ids"]))] * count, self.path, self.sha256)

    @classmethod
    def made_up(cls, recipe, vocabulary, count, seed=0):
        """Tokens of the recipe's lengths."""
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(10, min(vocabulary, 1000), (recipe.seq_len,), generator=generator).tolist()
        labels = [IGNORED] * (len(ids) - recipe.response) + ids[-recipe.response:]
        return cls([{"ids": ids, "labels": labels}] * count)


def files_of(dataset):
    """(training, held out) of a dataset: a file, or a folder with both. The second may be None."""
    path = pathlib.Path(dataset)
    if path.is_file():
        return path, None
    train = next((path / name for name in TRAIN if (path / name).is_file()), None)
    if train is None:
        raise Failure("missing_file", f"the dataset {path} is no file, and no folder with {TRAIN[0]}", MISSING_FILE)
    return train, next((path / name for name in HELD_OUT if (path / name).is_file()), None)


def _tokens(example, tokenizer):
    if "messages" in example:
        messages = example["messages"]
        if messages[-1]["role"] != "assistant":
            raise ValueError("the last message is not the assistant's")
        prompt = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(messages, tokenize=False)
        # Some templates write a turn that is done otherwise than one that begins.
        response = whole[len(prompt):].rstrip() if whole.startswith(prompt) else messages[-1]["content"] + tokenizer.eos_token
    else:
        prompt, response = example["prompt"], example["response"] + tokenizer.eos_token
    before = tokenizer(prompt, add_special_tokens="messages" not in example).input_ids
    answer = tokenizer(response, add_special_tokens=False).input_ids
    if not answer:
        raise ValueError("the response is empty")
    return {"ids": before + answer, "labels": [IGNORED] * len(before) + answer}


def _check(item, recipe, where):
    response = sum(label != IGNORED for label in item["labels"])
    for name, has, most in (("seq_len", len(item["ids"]), recipe.seq_len), ("response_len", response, recipe.response)):
        if has > most:
            raise Failure("bad_data", f"{where}: {has} tokens, and {name} is {most}: raise {name}, or take the example out",
                          BAD_DATA)


def _balance(items, classes, path):
    """Every class weighs as much as any other, and the mean weight is 1."""
    counts = collections.Counter(classes)
    if None in counts:
        raise Failure("bad_data", f"{path}: class_balanced needs a `class` in every line, and {counts[None]} have none", BAD_DATA)
    for item, kind in zip(items, classes):
        item["weight"] = len(items) / (len(counts) * counts[kind])


class Batches:
    """The collator: padded on the left, so that the responses end together."""

    def __init__(self, pad, config):
        self.pad, self.config = pad, config

    def __call__(self, items):
        length = max(len(item["ids"]) for item in items)
        fill = [length - len(item["ids"]) for item in items]
        ids = torch.tensor([[self.pad] * more + item["ids"] for more, item in zip(fill, items)])
        labels = torch.tensor([[IGNORED] * more + item["labels"] for more, item in zip(fill, items)])
        mask = torch.tensor([[0] * more + [1] * len(item["ids"]) for more, item in zip(fill, items)])
        batch = {"ids": ids, "labels": labels, "mask": mask}
        if "weight" in items[0]:
            batch["weights"] = torch.tensor([item["weight"] for item in items])
        return batch

    def inputs(self, batch, device):
        """On the device; the lengths are counted before, so that nothing waits for it."""
        counts = (batch["labels"] != IGNORED).sum(dim=1)
        moved = {name: value.to(device) for name, value in batch.items()}
        # A response ends its example, so its length is its count.
        return Inputs(moved["ids"], moved["labels"], moved["mask"], Inputs.extra_of(self.config, moved["ids"]),
                      int(counts.max()), moved.get("weights"), int(counts.sum()))
