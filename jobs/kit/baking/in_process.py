"""An adapter asked in this process: transformers and PEFT, greedy, on the card or the CPU. It downloads nothing.

The base model is loaded once; each adapter is put on it, and the base alone is the same weights with no adapter on.
Prompts are counted before they are answered, and one that does not fit is an error, never cut.
"""
import contextlib
import gc
import hashlib
import json
import os
import time

import failures

from .asked import Reply
from .endings import bad_setting, missing
from .prompt_size import Exact, check_fits

FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
HALVES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
QUANTS = (*HALVES, "nf4", "fp4", "int8")


class InProcess:
    def __init__(self, settings, _stop):
        if settings.quant and settings.quant not in QUANTS:
            raise bad_setting(f"quant: unknown {settings.quant!r}; known: {', '.join(QUANTS)}")
        self.settings = settings
        self.base = self.tokenizer = self.network = self.sizes = self.torch = None
        self.on, self.bare, self.loads = None, False, 0   # the adapter's folder; whether it is off for now

    def identity(self, model):
        """The adapter's bytes, and which base it goes on; what has no adapter is its base alone."""
        digest = hashlib.sha256()
        for name in FILES if model.name else ():
            path = os.path.join(model.name, name)
            if os.path.isfile(path):
                digest.update(name.encode() + b"\n")
                _into(digest, path)
        return f"{digest.hexdigest()[:32]} on {self._base_of(model)}"

    def _base_of(self, model):
        """The setting goes before the adapter's own word: the folder of the training's host may not be here."""
        if self.settings.base_model:
            return self.settings.base_model
        if model.name:
            named = _config(model.name).get("base_model_name_or_path")
            if not named:
                raise missing(f"{model.name}: adapter_config.json names no base model; set base_model")
            self.base = self.base or named
        if not self.base:
            raise missing("the base model is not known; set base_model")
        return self.base

    def open(self, model):
        # What is not on this host is not fetched behind the sweep's back.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import torch
        self.torch = torch
        if self.network is None:
            self._load(self._base_of(model), model.name)
        self._put_on(model)
        limit = getattr(self.network.config.get_text_config(), "max_position_embeddings", None)
        if isinstance(limit, int) and limit < self.settings.context_len:
            raise bad_setting(f"context_len = {self.settings.context_len} is more than the model's {limit}")
        return {"context": limit, "device": str(self.network.device), "dtype": str(self.network.dtype)}

    def close(self):
        """The next half needs the same base, and takes the adapter off or puts another in its place."""

    def check_fits(self, case):
        check_fits(case, self.sizes.of(case), self.settings)

    def ask(self, case):
        return self.ask_together([case])[0]

    def ask_together(self, cases):
        """`parallel` cases in one batch; each took as long as the batch."""
        started = time.perf_counter()
        inputs = self._tokens(*(case.chat() for case in cases))
        longest = inputs["input_ids"].shape[1]
        with self.torch.inference_mode(), self._without_adapter():
            out = self.network.generate(**inputs, generation_config=self.greedy)
        seconds = time.perf_counter() - started
        return [self._reply(made.tolist(), int(mask.sum()), seconds)
                for made, mask in zip(out[:, longest:], inputs["attention_mask"])]

    def _reply(self, made, count, seconds):
        """Up to the first token that ends it: what follows fills up the batch."""
        end = next((at for at, token in enumerate(made) if token in self.ends), None)
        cut = end is None and len(made) >= self.settings.max_tokens
        return Reply(self.tokenizer.decode(made[:end], skip_special_tokens=True), count, seconds, cut)

    def peak(self):
        """What the whole bake held at most, as the report has it."""
        if self.torch is None or self.network.device.type != "cuda":
            return {}
        return {"peak_allocated_mib": self.torch.cuda.max_memory_allocated() / 2**20,
                "peak_reserved_mib": self.torch.cuda.max_memory_reserved() / 2**20}

    def _tokens(self, *chats):
        try:
            inputs = self.tokenizer.apply_chat_template(
                list(chats), add_generation_prompt=True, return_tensors="pt", return_dict=True, padding=len(chats) > 1)
        except Exception as error:   # a template is a program of the model's author: it raises what it likes
            raise bad_setting(f"the chat template of the tokenizer refuses a case: {str(error)[:200]}") from error
        return inputs.to(self.network.device)

    def _load(self, base, adapter):
        import transformers
        from training import weights
        torch = self.torch
        device = self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        quant = self.settings.quant or ("bf16" if device.startswith("cuda") else "fp32")
        if not torch.cuda.is_available() and (device.startswith("cuda") or quant not in HALVES):
            raise failures.Failure("no_gpu", f"device = {device!r} with quant = {quant!r} needs a card, and this process "
                                   "sees none", failures.NO_GPU)
        files = weights.find(base)
        if files is None:
            raise missing(f"no weights of the base model {base!r} on this host; set base_model to their folder")
        if files.gguf and quant not in HALVES:
            raise bad_setting(f"quant = {quant!r} of a GGUF file is not baked; set quant = \"bf16\" in [bake] settings")
        files = files.plain(getattr(torch, HALVES[quant])) if files.gguf else files
        where = {"pretrained_model_name_or_path": str(files.folder), "local_files_only": True,
                 **({"gguf_file": files.gguf} if files.gguf else {})}
        own = adapter and os.path.isfile(os.path.join(adapter, "tokenizer_config.json"))
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(adapter) if own else files.tokenizer()
            # The very class that was trained: an adapter's names follow it.
            sees = getattr(transformers.AutoConfig.from_pretrained(**where), "vision_config", None) is not None
            auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
            model = auto.from_pretrained(**where, **self._precision(quant, device))
        except (OSError, ValueError) as error:
            if failures.told(error) and not isinstance(error, FileNotFoundError):
                raise
            said = str(error).strip().splitlines()[0][:200]
            raise missing(f"cannot load the base model {base!r}: {said}; set base_model to its folder") from error
        if not self.tokenizer.chat_template:
            raise bad_setting(f"the tokenizer of {adapter if own else base!r} has no chat template")
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.network = (model if quant not in HALVES else model.to(device)).eval()
        self.ends = _ends(model, self.tokenizer)
        pad = self.tokenizer.pad_token_id
        # Said in full: what is left open is taken from the model's own, which may sample or punish repetition.
        self.greedy = transformers.GenerationConfig(
            do_sample=False, num_beams=1, repetition_penalty=1.0, no_repeat_ngram_size=0,
            max_new_tokens=self.settings.max_tokens, eos_token_id=sorted(self.ends) or None,
            pad_token_id=pad if pad is not None else min(self.ends, default=0))
        self.sizes = Exact(lambda chat: self._tokens(chat)["input_ids"].shape[1])

    def _precision(self, quant, device):
        """As train.py loads it: an adapter is judged on the base that it was trained on."""
        import transformers
        more = {"attn_implementation": self.settings.attention} if self.settings.attention else {}
        if quant in HALVES:
            return {"dtype": getattr(self.torch, HALVES[quant]), **more}
        if quant == "int8":
            kind = transformers.BitsAndBytesConfig(load_in_8bit=True)
        else:
            kind = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type=quant, bnb_4bit_compute_dtype=self.torch.bfloat16,
                bnb_4bit_use_double_quant=self.settings.double_quant)
        return {"quantization_config": kind, "device_map": {"": device}, "dtype": self.torch.bfloat16, **more}

    def _put_on(self, model):
        """The base is the same network with its adapter off: taking adapters out would leave whole layers that were
        trained beside them."""
        self.bare = not model.name
        if self.bare or self.on == model.name:
            return
        import peft
        self.loads += 1
        name = f"asked{self.loads}"
        try:
            if isinstance(self.network, peft.PeftModel):
                before = self.network.active_adapter
                self.network.load_adapter(model.name, adapter_name=name)
                self.network.set_adapter(name)
                self.network.delete_adapter(before)
                gc.collect()
            else:
                self.network = peft.PeftModel.from_pretrained(self.network, model.name, adapter_name=name)
        except (OSError, ValueError, RuntimeError) as error:
            if failures.told(error):   # the card's memory, say
                raise
            said = str(error).strip().splitlines()[0][:200]
            raise missing(f"the adapter {model.name!r} does not go on {self._base_of(model)!r}: {said}") from error
        self.network.eval()
        self.on = model.name

    def _without_adapter(self):
        if self.bare and hasattr(self.network, "disable_adapter"):
            return self.network.disable_adapter()
        return contextlib.nullcontext()


def _ends(model, tokenizer):
    """Every token that ends a reply, by the model's word and by the tokenizer's."""
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return {end for end in [*ends, tokenizer.eos_token_id] if end is not None}


def _config(folder):
    try:
        with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        raise missing(f"cannot read the adapter in {folder}: {error}") from error
    return value if isinstance(value, dict) else {}


def _into(digest, path):
    try:
        with open(path, "rb") as file:
            for part in iter(lambda: file.read(2**20), b""):
                digest.update(part)
    except OSError as error:
        raise missing(f"cannot read {path}: {error}") from error
