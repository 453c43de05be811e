"""A trial's settings as a recipe, with the names and defaults of the sweep file. Refuses unknown values by name.

The same reading as vram/src/recipe.rs: a setting that memory does not depend on (learning rate, data) is left alone.
"""
import dataclasses
import difflib
import json
import pathlib

ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
QUANTS = ("nf4", "fp4", "int8", "bf16", "fp16", "fp32")
FIXES = ("chunked_mlp", "save_on_cpu", "bf16_lm_head", "logits_to_keep", "save_on_cpu_skips_weights",
         "cache_emptied_before_adapters", "chunked_loss")
OPTIMIZERS = ("adamw", "adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "sgd")
#: Other names of the same.
SAME = {
    "optimizer": {"adamw_torch": "adamw", "adamw_32bit": "adamw", "adamw_torch_fused": "adamw"},
    "quant": {"4bit": "nf4", "8bit": "int8", "none": "bf16", "bfloat16": "bf16", "float16": "fp16", "float32": "fp32"},
}
#: What may be held while backward runs: nothing, the logits that the loss was computed of (the way of a probe), the
#: response's logits as the model gave them and those (a loop that keeps both names), all that the model gave.
HELD = ("nothing", "loss_input", "response", "outputs")
#: Settings of the sweep file that change no block of a step.
LEFT_ALONE = ("epochs", "dataset", "steps", "grad_accumulation", "expandable_segments", "context_len",
              "gguf_bytes", "kv_cache", "parallel", "lr_schedule", "warmup", "neftune", "lora_plus",
              "max_grad_norm", "packing", "eval_every", "save_every", "adapter", "revision", "seed", "host",
              "class_balanced")


class RecipeError(ValueError):
    """A setting that cannot be used; the message names it and says what would do."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Counts are of tokens, modules or elements; `chunk`s are tokens."""
    model: str = ""
    model_config: dict | None = None
    quant: str = "bf16"
    double_quant: bool = True
    targets: tuple = ALL_LINEAR
    rank: int = 16
    alpha: float = 16
    rslora: bool = False
    dropout: float = 0.0
    dora: bool = False
    batch: int = 1
    seq_len: int = 0
    response_len: int | None = None
    memory_fixes: frozenset = frozenset()
    mlp_chunk_tokens: int = 1024
    loss_chunk_tokens: int = 256
    gradient_checkpointing: bool = True
    attention: str = "sdpa"
    autocast: bool = True
    logits_freed_before_backward: bool = True
    #: Keys and values kept as for generation: of no use in training, but on where nobody switches it off.
    use_cache: bool = False
    #: Of tables: what the program that was measured held while backward ran, one of HELD.
    program_held: str | None = None
    optimizer: str = "adamw"
    optimizer_steps: int = 2
    #: Memory does not depend on these two; the optimizer takes them.
    learning_rate: float = 1e-4
    weight_decay: float = 0.0

    @property
    def kbit(self):
        return self.quant in ("nf4", "fp4", "int8")

    @property
    def half(self):
        """Name of the half-precision type: of weights that are not quantised, and of autocast."""
        return "float16" if self.quant == "fp16" else "bfloat16"

    @property
    def response(self):
        return min(self.response_len or self.seq_len, self.seq_len)

    @property
    def held(self):
        return self.program_held or ("nothing" if self.logits_freed_before_backward else "loss_input")

    def has(self, fix):
        return fix in self.memory_fixes


def read(settings, mode="train", ignored=()):
    """`mode` is `train` (autocast, logits let go, two optimizer steps) or `probe` (one bare step, neither).

    A setting that the kit does not know could change the step, so it is refused; the caller may name it in `ignored`.
    """
    trains = mode == "train"
    values = {"autocast": trains, "logits_freed_before_backward": trains, "optimizer_steps": 2 if trains else 0}
    known = {field.name for field in dataclasses.fields(Recipe)}
    for name, value in settings.items():
        if name not in known and name not in LEFT_ALONE and name not in ignored:
            raise RecipeError(f"{name}: unknown setting; {_nearest(name, known)}if memory does not depend on it, "
                              f"say --ignore {name}")
        if name in known and value is not None:
            values[name] = _checked(name, value)
    fixes = values.get("memory_fixes", frozenset())
    for fix in sorted(fixes):
        if fix not in FIXES:
            raise RecipeError(f"memory_fixes: unknown fix `{fix}`; known: {', '.join(FIXES)}")
    recipe = Recipe(**values)
    if recipe.seq_len < 1:
        raise RecipeError("seq_len: missing; give the tokens of the longest example")
    if recipe.response_len and recipe.response_len > recipe.seq_len:
        raise RecipeError(f"response_len: {recipe.response_len} is more than seq_len, {recipe.seq_len}")
    return recipe


def read_file(path, mode="train", ignored=()):
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    if not isinstance(settings, dict):
        raise RecipeError(f"{path}: expected an object of settings")
    return read(settings, mode, ignored)


def _nearest(name, known):
    near = difflib.get_close_matches(name, [*known, *LEFT_ALONE], 1)
    return f"did you mean `{near[0]}`? " if near else ""


def _checked(name, value):
    counts = ("rank", "batch", "seq_len", "response_len", "mlp_chunk_tokens", "loss_chunk_tokens")
    flags = ("double_quant", "rslora", "dora", "gradient_checkpointing", "autocast", "logits_freed_before_backward",
             "use_cache")
    choices = {"quant": QUANTS, "optimizer": OPTIMIZERS, "attention": ("sdpa", "eager"), "program_held": HELD}
    if name in counts:
        return _count(name, value, 1)
    if name == "optimizer_steps":
        return _count(name, value, 0)
    if name in SAME and isinstance(value, str):
        value = SAME[name].get(value, value)
    if name in flags and not isinstance(value, bool):
        raise RecipeError(f"{name}: expected true or false, found {value!r}")
    if name in choices and value not in choices[name]:
        raise RecipeError(f"{name}: unknown `{value}`; known: {', '.join(choices[name])}")
    if name in ("dropout", "alpha", "learning_rate", "weight_decay"):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or name == "dropout" and value >= 1:
            raise RecipeError(f"{name}: expected a number{' from 0 to below 1' if name == 'dropout' else ''}, found {value!r}")
    if name in ("targets", "memory_fixes"):
        if not isinstance(value, (list, tuple, set, frozenset)) or not all(isinstance(one, str) for one in value):
            raise RecipeError(f"{name}: expected a list of names, found {value!r}")
        return tuple(value) if name == "targets" else frozenset(value)
    if name == "model_config" and not isinstance(value, dict):
        return _config_file(value)
    return value


def _config_file(path):
    """A `config.json`, or the folder that has one."""
    if not isinstance(path, str):
        raise RecipeError(f"model_config: expected an object or a file's name, found {path!r}")
    file = pathlib.Path(path)
    file = file / "config.json" if file.is_dir() else file
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"model_config: {file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecipeError(f"model_config: {file} is not JSON: {error}") from error


def _count(name, value, least):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
        raise RecipeError(f"{name}: expected a whole number from {least}, found {value!r}")
    return value


def of_row(row):
    """The recipe of one line of a table of measured steps (vram/data); its own peaks are not looked at."""
    settings = {key: row.get(key) for key in (
        "model", "double_quant", "rank", "targets", "dropout", "dora", "batch", "seq_len",
        "response_len", "attention", "gradient_checkpointing", "autocast", "logits_freed_before_backward")}
    settings["model_config"] = _typed(row.get("model_config"), row.get("model"))
    if settings["response_len"] and settings["seq_len"]:
        settings["response_len"] = min(settings["response_len"], settings["seq_len"])
    half = {"fp16": "fp16", "float16": "fp16", "fp32": "fp32"}.get(row.get("base_dtype") or "bf16", "bf16")
    settings["quant"] = row.get("quant") if row.get("quant") not in (None, "none") else half
    settings["optimizer"] = _optimizer(row.get("optimizer"))
    settings["memory_fixes"] = [fix for fix, on in (
        ("chunked_mlp", row.get("mlp_chunk_tokens")), ("save_on_cpu", row.get("save_on_cpu")),
        ("bf16_lm_head", row.get("bf16_lm_head")), ("logits_to_keep", row.get("logits_to_keep")),
        ("save_on_cpu_skips_weights", row.get("save_on_cpu_skips_weights")),
        ("cache_emptied_before_adapters", row.get("cache_emptied_before_adapters")),
        ("chunked_loss", row.get("loss_chunk_tokens"))) if on]
    for chunk in ("mlp_chunk_tokens", "loss_chunk_tokens"):
        settings[chunk] = row.get(chunk) or None
    # A table that gives the optimizer's state beside the peaks measured a step that had it already.
    settings["optimizer_steps"] = row.get("optimizer_steps") or 0
    if settings["optimizer_steps"] == 1 and row.get("optimizer_state_mib") is not None:
        settings["optimizer_steps"] = 2
    # A table that does not say is of a plain loop.
    # Checkpointing switches it off; so does the program of the tables, but in the outer configuration only, which is
    # not that of a language model with a vision tower.
    sees = bool((row.get("model_config") or {}).get("vision_config"))
    cache = row.get("use_cache")
    settings["use_cache"] = row.get("gradient_checkpointing") is False and (sees if cache is None else bool(cache))
    by_freed = {None: "outputs", False: "response", True: None}[row.get("logits_freed_before_backward")]
    settings["program_held"] = row.get("program_held") or by_freed
    return read(settings, "probe")


def _typed(config, name):
    """A table may leave `model_type` out; then its model's name says it, else it is taken for a llama."""
    if not isinstance(config, dict) or config.get("model_type") or config.get("text_config"):
        return config
    plain = (name or "").lower()
    kinds = (("qwen3", "qwen3"), ("qwen2", "qwen2"), ("mistral", "mistral"), ("phi-3", "phi3"), ("gemma-2", "gemma2"))
    return {"model_type": next((kind for word, kind in kinds if word in plain), "llama"), **config}


def _optimizer(name):
    """Tables write `adamw8bit`, `paged_adamw8bit` and the like."""
    if not isinstance(name, str):
        return "adamw"
    plain = name.lower().replace("-", "_").replace("8bit", "_8bit").replace("32bit", "_32bit").replace("__", "_")
    plain = SAME["optimizer"].get(plain, plain)
    if plain not in OPTIMIZERS:
        raise RecipeError(f"optimizer: unknown `{name}`; known: {', '.join(OPTIMIZERS)}")
    return plain
