"""A model served by Ollama, over its own API: its OpenAI one takes no context length and then trims prompts (F26).

Every request carries `num_ctx`. Before a half all other resident models are evicted, as one that shares the card may
push layers to the CPU (F22), and that they are gone is checked. It pulls no model.
"""
import time

from . import prompt_size
from .asked import Reply
from .endings import bad_setting, missing_model, server_error, too_long
from .http_client import Client, Refused

KEPT = "30m"     # how long Ollama keeps the model between two cases
GONE_WITHIN = 60   # seconds for an evicted model to leave


class Ollama:
    def __init__(self, settings, stop):
        self.settings, self.client = settings, Client(settings.endpoint, settings, stop)
        self.model = self.sizes = None

    def identity(self, model):
        """Ollama's digest of the model's files."""
        for entry in self._list("/api/tags"):
            if full(model.name) in names(entry):
                return f"{full(model.name)} {entry.get('digest', '')}".strip()
        raise missing_model(f"{self.client.root} has no model {model.name!r}; `ollama list` there shows what it has")

    def open(self, model):
        self.model = model.name
        if self.settings.evict:
            self._evict_others()
        self.sizes = prompt_size.Pieced(self._count, self.settings.context_len)
        self._count([{"role": "user", "content": "x"}])   # loads it, so that no case pays for that
        return self._check_resident()

    def close(self):
        """Stays resident; the next half evicts it."""

    def check_fits(self, case):
        prompt_size.check_fits(case, self.sizes.of(case), self.settings)

    def ask(self, case):
        reply, seconds = self._chat(case.chat(), self.settings.max_tokens)
        read = reply.get("prompt_eval_count")
        prompt_size.check_whole(case, self.sizes.of(case), read, self.settings)
        text = reply["message"].get("content") or ""
        return Reply(text, read, seconds, reply.get("done_reason") == "length")

    def _count(self, messages):
        read = self._chat(messages, 1)[0].get("prompt_eval_count")
        if not isinstance(read, int):
            raise server_error(f"{self.client.root} does not say how many tokens it read (prompt_eval_count); update "
                               "Ollama")
        return read

    def _chat(self, messages, most):
        options = {"num_ctx": self.settings.context_len, "temperature": 0, "seed": 0, "num_predict": most}
        # Newer servers refuse rather than trim when told so; older ones ignore both words.
        body = {"model": self.model, "messages": messages, "stream": False, "options": options, "keep_alive": KEPT,
                "truncate": False, "shift": False}
        try:
            reply, seconds = self.client.timed_post("/api/chat", body)
        except Refused as error:
            raise self._unusable(error) from error
        if not isinstance(reply, dict) or not isinstance(reply.get("message"), dict) or reply.get("done") is not True:
            raise server_error(f"{self.client.root}/api/chat: the reply has no `message`, or is not `done`: "
                               f"{str(reply)[:120]}")
        return reply, seconds

    def _unusable(self, error):
        if error.status == 404:
            return missing_model(f"{self.client.root} has no model {self.model!r}: {error.text}")
        if "context length" in error.text or "context size" in error.text:
            return too_long(f"{self.client.root}: {error.text}; raise context_len ({self.settings.context_len})")
        return self.client.unusable("/api/chat", error)

    def _evict_others(self):
        """Each that is not ours; then it is looked whether they are gone."""
        others = [entry for entry in self._list("/api/ps") if full(self.model) not in names(entry)]
        for entry in others:
            name = entry.get("model") or entry.get("name")
            try:
                self.client.post("/api/generate", {"model": name, "keep_alive": 0})
            except Refused as error:
                raise self.client.unusable("/api/generate", error) from error
            print(f"evicts {name} from {self.client.root}", flush=True)
        until = time.monotonic() + GONE_WITHIN
        wait = 0.05
        while others:
            others = [entry for entry in self._list("/api/ps") if full(self.model) not in names(entry)]
            if others and time.monotonic() > until:
                raise server_error(f"{self.client.root}: {names(others[0])[0]} is still resident after "
                                   f"{GONE_WITHIN} s; someone else uses it (evict = false shares the card)")
            if others:
                self.client.pause(wait)
                wait = min(1.0, wait * 2)

    def _check_resident(self):
        """The context that it really has, and whether all of it lies on the card."""
        for entry in self._list("/api/ps"):
            if full(self.model) not in names(entry):
                continue
            has = entry.get("context_length")
            if isinstance(has, int) and has < self.settings.context_len:
                raise bad_setting(f"{self.client.root} gave {self.model} a context of {has} tokens for num_ctx = "
                                  f"{self.settings.context_len}: it would trim prompts; lower context_len, or take a "
                                  "model with more")
            size, on_card = entry.get("size") or 0, entry.get("size_vram") or 0
            if 0 < on_card < size:
                print(f"{self.model}: {on_card / size:.0%} of it is on the card; latencies are those of a split model",
                      flush=True)
            return {"context": has, "resident_bytes": size, "on_card_bytes": on_card}
        return {}

    def _list(self, path):
        try:
            reply = self.client.get(path)
        except Refused as error:
            raise self.client.unusable(path, error) from error
        models = reply.get("models") if isinstance(reply, dict) else None
        if models is None and isinstance(reply, dict) and "models" in reply:
            models = []   # Go writes an empty list as null
        if not isinstance(models, list):
            raise server_error(f"{self.client.root}{path}: the reply has no `models`; is this an Ollama?")
        return [entry for entry in models if isinstance(entry, dict)]


def full(name):
    """Ollama's own reading of a name without a tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def names(entry):
    return [full(entry[key]) for key in ("model", "name") if isinstance(entry.get(key), str)]
