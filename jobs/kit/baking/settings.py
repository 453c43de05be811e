"""The settings of a bake, read and checked once: those of the stage, and of the trial where a sweep may put them there.

A wrong value is refused with the name of its setting. Keys that are not known are ignored, as everywhere in the kit;
a temperature other than 0 is refused, since repeated passes would then measure the dice.
"""
import dataclasses
import os
import urllib.parse

from .endings import bad_setting

SERVERS = ("openai", "ollama")


@dataclasses.dataclass(frozen=True)
class Settings:
    cases: tuple
    guards: tuple
    passes: int
    context_len: int
    max_tokens: int
    checkpoints: object   # "last", "all" or a tuple of steps
    incumbent: str        # "" for none, "base", else a model's name or an adapter's folder
    base_model: str
    endpoint: str         # "" for the adapter in process
    server: str
    model: str
    timeout: float
    retries: int
    retry_wait: float
    parallel: int
    evict: bool
    api_key: str = dataclasses.field(repr=False)
    quant: str = ""
    double_quant: bool = True
    device: str = ""
    attention: str = ""

    def shaping(self):
        """What an answer depends on besides the model and the case. Another number of passes changes none."""
        names = ("context_len", "max_tokens", "server", "endpoint", "quant", "double_quant", "device", "attention")
        return {name: getattr(self, name) for name in names}


def read(config):
    stage, params = _table(config, "stage"), _table(config, "params")
    both = {**params, **stage}   # the stage's own word goes before the trial's
    _temperature(both)
    endpoint = _endpoint(_text(stage, "endpoint"))
    server = _text(stage, "server") or "openai"
    if server not in SERVERS:
        raise bad_setting(f"server: unknown {server!r}; known: {', '.join(SERVERS)}")
    model = _text(stage, "model")
    if endpoint and not model:
        raise bad_setting("model: an endpoint needs the name under which it serves the model")
    return Settings(
        cases=_paths(stage, "cases", True), guards=_paths(stage, "guards", False),
        passes=_count(stage, ("passes",), 1), context_len=_count(both, ("context_len",), None),
        max_tokens=_count(both, ("max_tokens", "max_new_tokens"), 128),
        checkpoints=_checkpoints(stage.get("checkpoints", "last")), incumbent=_text(stage, "incumbent"),
        base_model=_text(stage, "base_model") or ("" if endpoint else _base_of(config)), endpoint=endpoint, server=server if endpoint else "in_process",
        model=model, timeout=_number(stage, "timeout", 120.0, above=0), retries=int(_number(stage, "retries", 3)),
        retry_wait=_number(stage, "retry_wait", 2.0), parallel=_count(both, ("concurrency", "parallel") if endpoint else ("parallel",), 1),
        evict=_flag(stage, "evict", True), api_key=_api_key(_text(stage, "api_key_env")),
        quant=_text(both, "quant"), double_quant=_flag(both, "double_quant", True), device=_text(stage, "device"), attention=_text(both, "attention"))


def _base_of(config):
    """What the adapter was trained on, as the training says it; else where this host declares the model to be."""
    trained, resources = (config.get("inputs") or {}).get("train") or {}, config.get("resources") or {}
    base = trained.get("base") or resources.get("model") or ""
    return base if isinstance(base, str) else ""


def _table(config, name):
    value = config.get(name) or {}
    if not isinstance(value, dict):
        raise bad_setting(f"{name}: expected a table, found {value!r}")
    return value


def _text(table, name):
    value = table.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_setting(f"{name}: expected text, found {value!r}")
    return value


def _flag(table, name, default):
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise bad_setting(f"{name}: expected true or false, found {value!r}")
    return value


def _count(table, names, default):
    """The first of the names that is there: a setting may have a shorter name than the sweep file's."""
    for name in names:
        if table.get(name) is not None:
            value = table[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise bad_setting(f"{name}: expected a whole number from 1, found {value!r}")
            return value
    if default is None:
        raise bad_setting(f"{names[0]} is missing: without it a server may trim prompts and say nothing")
    return default


def _number(table, name, default, above=None):
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 86400 or value == above:
        raise bad_setting(f"{name}: expected a number {'above' if above == 0 else 'from'} 0, found {value!r}")
    return value


def _temperature(table):
    value = table.get("temperature", 0)
    if isinstance(value, bool) or value != 0:
        raise bad_setting(f"temperature: a bake is greedy, so only 0 is taken, found {value!r}")


def _paths(stage, name, needed):
    value = stage.get(name) or []
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise bad_setting(f"{name}: expected the path of a file of cases, or a list of paths, found {value!r}")
    if needed and not paths:
        raise bad_setting(f"{name} is missing: the path of a file of cases, one JSON object a line")
    # They come as whole paths; by hand they may be written from the configuration's folder.
    folder = os.path.dirname(os.environ.get("SWEEP_CONFIG") or "")
    return tuple(os.path.join(folder, path) for path in paths)


def _checkpoints(value):
    if value in ("last", "all"):
        return value
    whole = isinstance(value, list) and all(isinstance(step, int) and not isinstance(step, bool) for step in value)
    if not whole or not value:
        raise bad_setting(f'checkpoints: expected "last", "all" or a list of steps, found {value!r}')
    return tuple(sorted(set(value)))


def _endpoint(text):
    """The root of the server, without the /v1 that most people write after it."""
    if not text:
        return ""
    try:
        url = urllib.parse.urlsplit(text)
        known = url.scheme in ("http", "https") and url.hostname
        url.port   # reads it: a port that is none is noticed here
    except ValueError:
        known = False
    if known and "@" in url.netloc:
        raise bad_setting("endpoint: a name and password in the address would end up in logs; use api_key_env")
    if not known or url.query or url.fragment:
        raise bad_setting(f"endpoint: expected an address such as http://127.0.0.1:11434, found {text!r}")
    root = text.rstrip("/")
    return root[: -len("/v1")] if root.endswith("/v1") else root


def _api_key(variable):
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise bad_setting(f"api_key_env: the environment variable {variable} is not set on this host")
    if not key.isascii() or not key.isprintable():
        raise bad_setting(f"api_key_env: the environment variable {variable} holds characters that no key has")
    return key
