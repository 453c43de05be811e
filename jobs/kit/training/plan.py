"""What a training is to do besides its step: how long, at which rates, when it saves and evaluates. Read and checked once.

Names and defaults of the sweep file. Refuses what the programs do not carry out, by name, before anything is loaded.
"""
import dataclasses

from step import recipe as recipes
from step.recipe import RecipeError

#: As a sweep file may name them.
SCHEDULES = ("linear", "cosine", "cosine_with_restarts", "constant", "constant_with_warmup", "polynomial", "inverse_sqrt")


@dataclasses.dataclass(frozen=True)
class Plan:
    epochs: float = 1.0
    #: Optimizer steps; None: by epochs.
    steps: int | None = None
    grad_accumulation: int = 1
    lr_schedule: str = "linear"
    #: Below 1 a share of the steps, else a number of steps.
    warmup: float = 0.0
    max_grad_norm: float = 1.0
    #: NEFTune's alpha; 0: none.
    neftune: float = 0.0
    #: LoRA+: rate of the B matrices, as a multiple of the A matrices'.
    lora_plus: float | None = None
    class_balanced: bool = False
    #: In optimizer steps; None: at the end of each epoch.
    eval_every: int | None = None
    save_every: int | None = None
    #: Steps between reports.
    log_every: int = 1
    #: MiB of host memory that must stay free; below it the training saves and ends.
    host_reserve_mib: int = 512


def read(config):
    """(recipe, plan) of a job's configuration; the stage's settings go over the trial's."""
    params, stage = dict(config.get("params") or {}), config.get("stage") or {}
    params.pop("adapter", None)
    own = {field.name: field for field in dataclasses.fields(Plan)}
    if params.get("packing"):
        raise RecipeError("packing: these programs train one example a row; take it out")
    values = {name: params[name] for name in own if params.get(name) is not None}
    values.update({name: stage[name] for name in own if stage.get(name) is not None})
    for name, value in values.items():
        _check(name, value, own[name].type)
    if values.get("lr_schedule", SCHEDULES[0]) not in SCHEDULES:
        raise RecipeError(f"lr_schedule: {values['lr_schedule']!r} is not one of {', '.join(SCHEDULES)}")
    ignored = [name for name in params if name.startswith("x_") or name in own]
    return recipes.read(params, "train", ignored), Plan(**values)


def _check(name, value, kind):
    if "bool" in str(kind):
        good, wanted = isinstance(value, bool), "true or false"
    elif "str" in str(kind):
        good, wanted = isinstance(value, str), "a name"
    elif "int" in str(kind):
        good, wanted = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "a whole number from 1"
    else:
        good, wanted = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0, "a number from 0"
    if not good:
        raise RecipeError(f"{name}: expected {wanted}, found {value!r}")
