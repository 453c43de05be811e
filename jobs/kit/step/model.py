"""The model as it stands before the first step: built, quantised, prepared, with its adapters.

With no weights at hand it is made from the shapes alone, with random numbers: memory depends on shapes only.
The order of things decides which segments of the allocator stay; it is kept as it is on purpose.
"""
import contextlib
import pathlib

import torch
import torch.nn as nn
import transformers
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

from . import fixes
from .recipe import RecipeError

#: Of what a library says, so much is passed on: some list every model that they know.
SAID = 200


def config_of(recipe):
    """The transformers configuration: the recipe's own, else that of a local folder or of the local model cache."""
    try:
        if recipe.model_config is not None:
            given = dict(recipe.model_config)
            kind = given.pop("model_type", None)
            if not kind:
                raise RecipeError("model_config: `model_type` is missing")
            if kind not in transformers.CONFIG_MAPPING:
                raise RecipeError(f"model_config: transformers {transformers.__version__} knows no model_type `{kind}`")
            config = transformers.AutoConfig.for_model(kind, **given)
        else:
            if not recipe.model:
                raise RecipeError("model_config: missing; give it, or `model`: the folder of a model")
            folder = pathlib.Path(recipe.model)
            if folder.is_absolute() and not folder.is_dir():
                raise RecipeError(f"model `{recipe.model}`: no such folder")
            if folder.is_dir() and not (folder / "config.json").is_file():
                raise RecipeError(f"model `{recipe.model}`: the folder has no config.json")
            config = transformers.AutoConfig.from_pretrained(recipe.model, local_files_only=True)
    except RecipeError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and not pathlib.Path(recipe.model or "").is_dir():
            # The library says that it could not connect; nothing was fetched, and nothing was to be.
            raise RecipeError(f"model `{recipe.model}`: neither a folder nor in the hub's local cache; give `model_config`, "
                              "or the folder of the model") from error
        said = str(error).strip().splitlines()
        said = said[0][:SAID] if said else type(error).__name__
        raise RecipeError(f"model `{recipe.model}`: no usable config.json: {said}; give `model_config`, or the folder of "
                          "the model") from error
    config._attn_implementation = recipe.attention
    text = config.get_text_config()
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        if (getattr(text, name, 0) or 0) > 1:
            raise RecipeError(f"model `{recipe.model}`: a mixture of experts is not rehearsed; probe it on a card")
    return config


def dtype_of(recipe):
    return torch.float32 if recipe.quant == "fp32" else getattr(torch, recipe.half)


def build(recipe, machine, config=None, weights=None):
    """The base model on the machine, in half precision, then quantised; random, unless `weights` (weights.py) are given."""
    config = config or config_of(recipe)
    model = weights.load(recipe, machine, config) if weights else _random(recipe, machine, config)
    model.requires_grad_(False)
    if recipe.kbit and not getattr(model, "is_quantized", False):
        _quantise(model, recipe, machine)
    if machine.build_device != machine.device or weights:
        model.to(machine.device)
    machine.empty_cache()
    model.config.use_cache = model.config.get_text_config().use_cache = recipe.use_cache
    return model


def _random(recipe, machine, config):
    sees = hasattr(config, "vision_config") and config.vision_config is not None
    auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype_of(recipe))
    elsewhere = machine.build_device != machine.device
    try:
        with torch.device(machine.build_device), _constant_numbers() if elsewhere else contextlib.nullcontext():
            return auto.from_config(config, attn_implementation=recipe.attention)
    except (ValueError, KeyError) as error:
        raise RecipeError(f"model_config: this model cannot be built so: {str(error).splitlines()[0][:300]}") from error
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _constant_numbers():
    """Random numbers by the billion take a host minutes, and a step takes the same memory whatever its weights are."""
    drawn = {name: getattr(torch.Tensor, name) for name in ("normal_", "uniform_")}
    try:
        for name in drawn:
            setattr(torch.Tensor, name, lambda tensor, *_, **__: tensor.fill_(0.01))
        yield
    finally:
        for name, method in drawn.items():
            setattr(torch.Tensor, name, method)


def _quantise(model, recipe, machine):
    """Every linear layer but the output head. Whole weights go when all are done: the list of modules holds them."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name != "lm_head":
                setattr(module, name, machine.linear(child, recipe))
    if recipe.quant == "int8":
        model.is_loaded_in_8bit = True
    else:
        model.is_loaded_in_4bit = True


def prepare(model, recipe, machine):
    """k-bit preparation as PEFT does it, or checkpointing alone; then the fixes that change the model."""
    ways = {"use_reentrant": False}
    if recipe.kbit:
        model = prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=recipe.gradient_checkpointing, gradient_checkpointing_kwargs=ways)
    elif recipe.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=ways)
        model.enable_input_require_grads()
    machine.empty_cache()
    if recipe.has("bf16_lm_head"):
        fixes.bf16_lm_head(model, getattr(torch, recipe.half))
    if recipe.has("cache_emptied_before_adapters"):
        machine.empty_cache()
    return model


def adapt(model, recipe, machine):
    """Adapters on every module whose name matches, wherever it is, and the fixes that wrap modules."""
    try:
        model = get_peft_model(model, LoraConfig(
            r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=recipe.dropout, use_rslora=recipe.rslora,
            use_dora=recipe.dora, task_type="CAUSAL_LM", target_modules=list(recipe.targets)))
    except ValueError as error:
        names = {name.rsplit(".", 1)[-1] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
        raise RecipeError(f"targets: PEFT cannot adapt {', '.join(recipe.targets) or 'nothing'}: {str(error)[:SAID]}; "
                          f"linear layers here: {', '.join(sorted(names))[:SAID]}") from error
    if recipe.has("chunked_mlp"):
        fixes.chunked_mlp(model, recipe.mlp_chunk_tokens)
    model.train()
    machine.empty_cache()
    return model


def ready(recipe, machine, config=None, weights=None):
    """All of the above, up to mark 1."""
    model = build(recipe, machine, config, weights)
    machine.loaded()
    model = prepare(model, recipe, machine)
    model = adapt(model, recipe, machine)
    machine.mark(1)
    return model
