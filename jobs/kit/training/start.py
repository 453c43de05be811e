"""From a job's configuration to a model before its first step: device, weights, data. The same for a probe and a training."""
import dataclasses

import torch
import transformers

from failures import MISSING_FILE, NO_GPU, Failure
from measure import others
from step import model as models

from . import data, weights as files

#: Whole weights of more than this share of what the device has free are made on the host.
SHARE = 0.5


@dataclasses.dataclass
class Start:
    recipe: object
    config: object
    weights: object
    machine: object
    held_before_mib: float | None
    load_order: str
    resources: dict

    def model(self):
        return models.ready(self.recipe, self.machine, self.config, self.weights)

    def dataset_file(self, held_out=False):
        """The file of the host's dataset, or None where the trial names none or the host has none."""
        declared = self.resources.get("dataset")
        return data.files_of(declared)[held_out] if declared else None

    def wait(self):
        if self.machine.is_card:
            torch.cuda.synchronize()


def of(config, recipe, machine_kind, needs_weights=False):
    """Everything but the model itself. Fails before anything is loaded where the recipe cannot run here."""
    transformers.utils.logging.disable_progress_bar()   # thousands of characters in a log
    resources = config.get("resources") or {}
    # Before this process has a context of its own there.
    held = others.used_mib() if torch.cuda.is_available() else None
    machine = machine_kind()
    if recipe.kbit and not machine.is_card:
        raise Failure("no_gpu", f"quant = {recipe.quant} needs a card, and this process sees none; bf16 or fp32 run on a CPU",
                      NO_GPU)
    weights = files.find(recipe.model, resources.get("model"))
    if weights:
        weights = weights.plain(models.dtype_of(recipe))
        shape = weights.config(recipe)
    elif needs_weights:
        raise Failure("missing_weights", f"this host has no weights of {recipe.model}: declare them under [models] in the "
                      "host's file, or fetch them into the hub's cache", MISSING_FILE)
    else:
        known = config.get("model_config")
        if recipe.model_config is None and known is not None:
            recipe = dataclasses.replace(recipe, model_config=known)
        shape = models.config_of(recipe)
    order = _order(recipe, machine, shape, weights)
    return Start(recipe, shape, weights, machine, held, order, resources)


def _order(recipe, machine, shape, weights):
    """`whole`: half-precision weights on the device, then quantised, as the tables were measured. `by_layer`: made on the
    host and brought over piece by piece, where the device could not hold them whole."""
    if not machine.is_card:
        return "whole"
    if weights:
        if weights.gguf:
            machine.build_device = torch.device("cpu")
        return "by_layer" if recipe.kbit or weights.gguf else "whole"
    free = torch.cuda.mem_get_info()[0]
    if machine.limit_mib:
        free = min(free, machine.limit_mib * 2**20)
    with torch.device("meta"):
        sees = getattr(shape, "vision_config", None) is not None
        auto = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
        count = sum(weight.numel() for weight in auto.from_config(shape).parameters())
    if count * (4 if recipe.quant == "fp32" else 2) > SHARE * free:
        machine.build_device = torch.device("cpu")
        return "by_layer"
    return "whole"
