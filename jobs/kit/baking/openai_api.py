"""A model behind an OpenAI-compatible endpoint: llama.cpp's server, vLLM, `transformers serve` and their like.

The API has no field for a context length, so what the server says of its own is held against `context_len`, and each
prompt's size against what it read. An Ollama that answers here is refused: its own API takes the length, this does not.
"""
import os

from . import prompt_size
from .asked import Reply
from .endings import bad_setting, missing_model, server_error, too_long
from .http_client import Client, Refused

CHAT = "/v1/chat/completions"
STRICT = ("llamacpp", "vllm")   # those list all that they serve; llama.cpp answers to any name


class OpenAI:
    def __init__(self, settings, stop):
        self.settings, self.client = settings, Client(settings.endpoint, settings, stop)
        self.model = self.sizes = None
        self.listed = None

    def identity(self, model):
        entry = self._entry(model.name)
        kept = {key: entry[key] for key in ("id", "root", "parent", "meta") if entry.get(key) is not None}
        return f"{model.name} {sorted(kept.items())}" if kept else model.name

    def open(self, model):
        if self.settings.evict and self.model not in (None, model.name):
            self._evict()
        self.model = model.name
        self._refuse_ollama()
        entry = self._entry(self.model)
        has = self._context(entry)
        if has is not None and has < self.settings.context_len:
            raise bad_setting(f"{self.client.root} has a context of {has} tokens for each request, context_len is "
                              f"{self.settings.context_len}: start it with more (llama.cpp: --ctx-size; vLLM: "
                              "--max-model-len), or lower context_len")
        if has is None:
            print(f"{self.client.root} does not say its context; each prompt is checked by what was read", flush=True)
        return {"context": has}

    def close(self):
        """Stays resident; the next half evicts it where the server has a word for that."""

    def check_fits(self, case):
        prompt_size.check_fits(case, self.sizes.of(case), self.settings)

    def ask(self, case):
        reply, seconds = self._chat(case.chat(), self.settings.max_tokens)
        read = _read_tokens(reply)
        prompt_size.check_whole(case, self.sizes.of(case), read, self.settings)
        choice = reply["choices"][0]
        return Reply(choice["message"].get("content") or "", read, seconds, choice.get("finish_reason") == "length")

    def _entry(self, name):
        """What the server's list says of the model; empty where it lists others than it serves."""
        if self.listed is None:
            reply = self.client.offered("/v1/models")
            data = reply.get("data") if isinstance(reply, dict) else None
            self.listed = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
        for entry in self.listed:
            known = [entry.get("id"), *(entry.get("aliases") or [])]
            if name in known or name in [os.path.basename(one) for one in known if isinstance(one, str)]:
                return entry
        if any(entry.get("owned_by") in STRICT for entry in self.listed):
            served = ", ".join(str(entry.get("id")) for entry in self.listed)
            raise missing_model(f"{self.client.root} does not serve {name!r}; it serves {served}")
        return {}

    def _evict(self):
        """`transformers serve` keeps each model that it was asked for; the API as such has no word for letting one go."""
        pages = self.client.offered("/openapi.json")
        pages = pages.get("paths") if isinstance(pages, dict) else None
        if isinstance(pages, dict) and "/reset" in pages and "/load_model" in pages:
            self.client.offered("/reset", {})
            print(f"evicts {self.model} from {self.client.root}", flush=True)

    def _refuse_ollama(self):
        version = self.client.offered("/api/version")
        if isinstance(version, dict) and "version" in version:
            raise bad_setting(f"{self.client.root} is an Ollama: its OpenAI API takes no context length and trims "
                              "prompts in silence; set server = \"ollama\"")

    def _context(self, entry):
        """The context of one request, and the way to count a prompt's tokens."""
        props = self.client.offered("/props")
        slot = props.get("default_generation_settings") if isinstance(props, dict) else None
        if isinstance(slot, dict) and isinstance(slot.get("n_ctx"), int):
            self.sizes = prompt_size.Exact(self._llama_count)
            return slot["n_ctx"]
        vllm = self.client.offered("/tokenize", self._vllm_body([{"role": "user", "content": "x"}]))
        if isinstance(vllm, dict) and isinstance(vllm.get("count"), int):
            self.sizes = prompt_size.Exact(self._vllm_count)
        else:
            self.sizes = prompt_size.Pieced(self._count, self.settings.context_len)
        has = entry.get("max_model_len")
        return has if isinstance(has, int) else None

    def _llama_count(self, messages):
        prompt = self._posted("/apply-template", {"messages": messages}, "prompt", str)
        return len(self._posted("/tokenize", {"content": prompt, "add_special": True, "parse_special": True},
                                "tokens", list))

    def _vllm_body(self, messages):
        return {"model": self.model, "messages": messages, "add_generation_prompt": True}

    def _vllm_count(self, messages):
        return self._posted("/tokenize", self._vllm_body(messages), "count", int)

    def _posted(self, path, body, key, kind):
        try:
            reply = self.client.post(path, body)
        except Refused as error:
            raise self.client.unusable(path, error) from error
        if not isinstance(reply, dict) or not isinstance(reply.get(key), kind):
            raise server_error(f"{self.client.root}{path}: the reply has no `{key}`: {str(reply)[:120]}")
        return reply[key]

    def _count(self, messages):
        read = _read_tokens(self._chat(messages, 1)[0])
        if read is None:
            raise server_error(f"{self.client.root}{CHAT} does not say how many tokens it read "
                               "(usage.prompt_tokens), so a trimmed prompt would not be noticed")
        return read

    def _chat(self, messages, most):
        body = {"model": self.model, "messages": messages, "temperature": 0, "seed": 0, "max_tokens": most,
                "stream": False}
        try:
            reply, seconds = self.client.timed_post(CHAT, body)
        except Refused as error:
            raise self._unusable(error) from error
        choices = reply.get("choices") if isinstance(reply, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict) or not isinstance(
                choices[0].get("message"), dict):
            raise server_error(f"{self.client.root}{CHAT}: the reply has no `choices` with a `message`: "
                               f"{str(reply)[:120]}")
        return reply, seconds

    def _unusable(self, error):
        inner = error.body.get("error") if isinstance(error.body, dict) else None
        kind = inner.get("type") if isinstance(inner, dict) else None
        if kind == "exceed_context_size_error" or "context length" in error.text or "context size" in error.text:
            return too_long(f"{self.client.root}: {error.text} (context_len is {self.settings.context_len})")
        if error.status == 404:
            return missing_model(f"{self.client.root} has no model {self.model!r}: {error.text}")
        return self.client.unusable(CHAT, error)


def _read_tokens(reply):
    usage = reply.get("usage")
    read = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return read if isinstance(read, int) else None
