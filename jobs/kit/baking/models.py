"""Who is asked: the candidate, its earlier checkpoints, the incumbent. Checked before anything is loaded.

In process a model is an adapter's folder, or the base model without one; at an endpoint it is a name. An adapter that
is listed twice (the last checkpoint is mostly the last adapter, too) is asked once.
"""
import dataclasses
import os

from .endings import bad_setting, missing

CANDIDATE, INCUMBENT = "candidate", "incumbent"


@dataclasses.dataclass(frozen=True)
class Model:
    label: str     # "candidate", "step-200", "incumbent": as in the file of cases
    name: str      # served name or adapter's folder; "" for the base model alone
    step: int = None
    held_out_loss: float = None   # as the training measured it


def chosen(settings, config, adapter=None):
    """`adapter` is what the command line named: it goes before the result of the training."""
    if settings.endpoint:
        return _served(settings, adapter)
    trained = (config.get("inputs") or {}).get("train") or {}
    models = [Model(CANDIDATE, adapter)] if adapter else _trained(settings, trained)
    if settings.incumbent:
        models.append(Model(INCUMBENT, "" if settings.incumbent == "base" else settings.incumbent))
    for model in models:
        if model.name and not os.path.isfile(os.path.join(model.name, "adapter_config.json")):
            raise missing(f"{model.label}: no adapter in {model.name!r} (adapter_config.json is not there)")
    return models


def _served(settings, adapter):
    if settings.checkpoints != "last":
        raise bad_setting("checkpoints: an endpoint serves models by name; leave `endpoint` out to score checkpoints")
    models = [Model(CANDIDATE, adapter or settings.model)]
    if settings.incumbent == "base":
        if not settings.base_model:
            raise bad_setting('incumbent: "base" at an endpoint needs base_model, the name under which it is served')
        models.append(Model(INCUMBENT, settings.base_model))
    elif settings.incumbent:
        models.append(Model(INCUMBENT, settings.incumbent))
    if len({model.name for model in models}) < len(models):
        raise bad_setting(f"incumbent: it is the candidate itself, {models[0].name!r}")
    return models


def _trained(settings, trained):
    last, saved = trained.get("adapter"), _saved(trained)
    if not last and not saved:
        raise missing("there is no adapter: the configuration has no result of a train job with `adapter`; name one "
                      "with --adapter, or an `endpoint` that serves the model")
    if not last:
        last = saved[max(saved)].name
    final = next((step for step, one in saved.items() if _same(one.name, last)), None)
    candidate = Model(CANDIDATE, last, trained.get("steps") if final is None else final, trained.get("held_out_loss"))
    if settings.checkpoints == "last":
        return [candidate]
    steps = sorted(saved) if settings.checkpoints == "all" else settings.checkpoints
    unknown = [step for step in steps if step not in saved]
    if unknown:
        kept = ", ".join(map(str, sorted(saved))) or "none"
        raise bad_setting(f"checkpoints: the training kept none of step {unknown[0]}; it kept {kept}")
    return [candidate, *(saved[step] for step in steps if step != final)]


def _saved(trained):
    """The checkpoints that the training's result lists, by step."""
    listed = trained.get("checkpoints") or []
    if not isinstance(listed, list):
        raise missing("the result of the train job has `checkpoints` that are no list")
    saved = {}
    for entry in listed:
        step, path = (entry.get("step"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if isinstance(step, bool) or not isinstance(step, int) or not isinstance(path, str):
            raise missing(f"the result of the train job has a checkpoint without `step` and `path`: {entry!r}")
        saved[step] = Model(f"step-{step}", path, step, entry.get("held_out_loss"))
    return saved


def _same(path, other):
    return os.path.realpath(path) == os.path.realpath(other)


def without_twins(models, identities):
    """An earlier checkpoint with the candidate's very bytes is the candidate: its step becomes the candidate's."""
    candidate, kept = models[0], []
    for model in models[1:]:
        if model.label != INCUMBENT and identities[model.label] == identities[CANDIDATE]:
            candidate = dataclasses.replace(candidate, step=model.step, held_out_loss=model.held_out_loss)
        else:
            kept.append(model)
    return [candidate, *kept]
