"""Servers that a bake is tried against, on a port of this machine: a strict Ollama and a strict OpenAI endpoint.

Both refuse what the real ones would refuse or what a bake must never send, count tokens as words plus a template, and
trim like the real ones: in silence. `answer(model, text)` is what a model says to the last message.
"""
import http.server
import json
import threading
import time

TEMPLATE = 4         # tokens around each message
SYSTEM = 10          # tokens of the template's own system message, where a chat has none
OPTIONS = {"num_ctx": int, "temperature": (int, float), "seed": int, "num_predict": int}
CHAT = {"model": str, "messages": list, "stream": bool, "options": dict, "keep_alive": (str, int), "truncate": bool,
        "shift": bool}
COMPLETION = {"model": str, "messages": list, "temperature": (int, float), "seed": int, "max_tokens": int, "stream": bool}


class Refusal(Exception):
    def __init__(self, status, body):
        super().__init__(status)
        self.status, self.body = status, body


def tokens(messages):
    words = sum(len(message["content"].split()) + TEMPLATE for message in messages)
    return words + (0 if any(message["role"] == "system" for message in messages) else SYSTEM)


def checked(body, fields, needed):
    """Refuses fields that are unknown, missing or of a wrong kind."""
    if not isinstance(body, dict):
        raise Refusal(400, {"error": "invalid body"})
    for name, value in body.items():
        kind = fields.get(name)
        if kind is None or not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
            raise Refusal(400, {"error": f"json: cannot use field {name}"})
    for name in needed:
        if name not in body:
            raise Refusal(400, {"error": f"missing field {name}"})


def checked_messages(messages):
    for message in messages:
        if set(message) != {"role", "content"} or message["role"] not in ("system", "user", "assistant"):
            raise Refusal(400, {"error": "invalid message"})


class Server:
    """`faults` are (status, bytes or object) that come instead of the next answers to cases; status 0 hangs up.
    `on_case` is called with the number of each case asked, from 1, before it is answered."""

    def __init__(self, answer):
        self.answer, self.faults, self.on_case = answer, [], lambda number: None
        self.asked, self.log, self.headers = [], [], []
        self.lock = threading.Lock()

    def __enter__(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(None)

            def do_POST(self):
                self.reply(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def reply(self, data):
                outer.headers.append(dict(self.headers))
                try:
                    body = None if data is None else json.loads(data)
                    status, value = 200, outer.handle(self.path, body)
                except Refusal as error:
                    status, value = error.status, error.body
                self.close_connection = True
                if not status:
                    return
                text = value if isinstance(value, bytes) else json.dumps(value).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(text)))
                    self.send_header("Connection", "close")
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass   # the bake was killed

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def case(self, model, messages):
        """One that is asked for more than a count."""
        with self.lock:
            self.asked.append((model, messages[-1]["content"]))
            number = len(self.asked)
            fault = self.faults.pop(0) if self.faults else None
        self.on_case(number)
        if fault:
            raise Refusal(*fault)
        return self.answer(model, messages[-1]["content"])


class Ollama(Server):
    """`models` maps a full name to the most context that it takes; `hides_context` is an older server's /api/ps."""

    def __init__(self, answer, models=None, refuses_long=False, hides_context=False, lingers=0):
        super().__init__(answer)
        self.models = models or {"router:latest": 8192, "old:latest": 8192}
        self.refuses_long, self.hides_context, self.lingers = refuses_long, hides_context, lingers
        self.resident, self.leaving = {}, {}

    def handle(self, path, body):
        if path == "/api/version":
            return {"version": "0.30.10"}
        if path == "/api/tags":
            return {"models": [{"name": name, "model": name, "digest": f"sha-{name}"} for name in self.models]}
        if path == "/api/ps":
            return {"models": self.listed()}
        if path == "/api/generate":
            return self.evict(body)
        if path == "/api/chat":
            return self.chat(body)
        raise Refusal(404, b"404 page not found")

    def listed(self):
        for name in list(self.leaving):
            self.leaving[name] -= 1
            if self.leaving[name] < 0:
                self.leaving.pop(name), self.resident.pop(name, None)
        known = [{"name": name, "model": name, "size": 1000, "size_vram": 1000,
                  **({} if self.hides_context else {"context_length": context})}
                 for name, context in self.resident.items()]
        return known or None   # as Go writes an empty list

    def evict(self, body):
        checked(body, {"model": str, "keep_alive": int}, ("model", "keep_alive"))
        if body["keep_alive"] != 0 or body["model"] not in self.models:
            raise Refusal(404, {"error": "model not found"})
        self.log.append(f"evict {body['model']}")
        self.leaving[body["model"]] = self.lingers
        return {"model": body["model"], "done": True, "done_reason": "unload"}

    def chat(self, body):
        checked(body, CHAT, ("model", "messages", "stream", "options"))
        checked(body["options"], OPTIONS, OPTIONS)
        checked_messages(body["messages"])
        if body["stream"] or body["options"]["temperature"] != 0:
            raise Refusal(400, {"error": "a bake streams nothing and is greedy"})
        name = body["model"] if ":" in body["model"] else f"{body['model']}:latest"
        if name not in self.models:
            raise Refusal(404, {"error": f"model '{name}' not found"})
        context = min(body["options"]["num_ctx"], self.models[name])
        if self.resident.get(name) != context:
            self.log.append(f"load {name} {context} beside {sorted(set(self.resident) - {name})}")
            self.resident[name] = context
        read = tokens(body["messages"])
        if read > context:
            if self.refuses_long and body.get("truncate") is False:
                raise Refusal(400, {"error": "the input length exceeds the context length"})
            read = context // 2 + 2
        most = body["options"]["num_predict"]
        text = "x" if most == 1 else self.case(name, body["messages"])
        return {"model": name, "message": {"role": "assistant", "content": text}, "done": True, "done_reason": "stop",
                "prompt_eval_count": read, "eval_count": 1}


class OpenAI(Server):
    """`kind` is plain (usage only), llama (/props, /apply-template, /tokenize) or vllm (/tokenize, max_model_len)."""

    def __init__(self, answer, kind="plain", context=8192, model="router", usage=True, key=None):
        super().__init__(answer)
        self.kind, self.context, self.model, self.usage, self.key = kind, context, model, usage, key

    def handle(self, path, body):
        if self.key and self.headers[-1].get("Authorization") != f"Bearer {self.key}":
            raise Refusal(401, {"error": {"message": f"bad key {self.headers[-1].get('Authorization')}"}})
        if path == "/v1/chat/completions":
            return self.chat(body)
        if path == "/v1/models" and self.kind != "plain":
            return {"data": [{"id": self.model, "owned_by": "llamacpp" if self.kind == "llama" else "vllm",
                              **({"max_model_len": self.context} if self.kind == "vllm" else {})}]}
        if path == "/props" and self.kind == "llama":
            return {"default_generation_settings": {"n_ctx": self.context}}
        if path == "/apply-template" and self.kind == "llama":
            checked(body, {"messages": list}, ("messages",))
            return {"prompt": " ".join(["t"] * tokens(body["messages"]))}
        if path == "/tokenize" and self.kind == "llama":
            checked(body, {"content": str, "add_special": bool, "parse_special": bool}, ("content",))
            return {"tokens": list(range(len(body["content"].split())))}
        if path == "/tokenize" and self.kind == "vllm":
            checked(body, {"model": str, "messages": list, "add_generation_prompt": bool}, ("model", "messages"))
            return {"count": tokens(body["messages"]), "max_model_len": self.context}
        raise Refusal(404, {"detail": "Not Found"})

    def chat(self, body):
        checked(body, COMPLETION, COMPLETION)
        checked_messages(body["messages"])
        if body["stream"] or body["temperature"] != 0:
            raise Refusal(422, {"detail": "a bake streams nothing and is greedy"})
        if self.kind != "llama" and body["model"] != self.model:
            raise Refusal(404, {"error": {"message": f"The model `{body['model']}` does not exist."}})
        read = min(tokens(body["messages"]), self.context // 2 + 2 if tokens(body["messages"]) > self.context else 10**9)
        text = "x" if body["max_tokens"] == 1 else self.case(body["model"], body["messages"])
        if text is None:   # the model takes its time
            time.sleep(3)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"choices": [choice], **({"usage": {"prompt_tokens": read}} if self.usage else {})}
