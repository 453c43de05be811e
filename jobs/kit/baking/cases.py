"""Reads files of cases, one JSON object a line, and refuses with file and line whatever would blur a score.

A case has `id`, `messages` or `prompt`, `expect`, `tags` with exactly one of `train` and `held_out`, and may have
`capability` (a name to sum up under) and `skip` (why it is not asked). One tagged `guard`, or of a file of guards, must
not fire: what it expects is null or the capability "none".
"""
import dataclasses
import hashlib
import json

from .endings import bad_cases, missing

NONE = "none"
ROLES = ("system", "user", "assistant", "developer", "tool")


@dataclasses.dataclass(frozen=True)
class Case:
    id: str
    messages: tuple       # of (role, content)
    capability: str       # expected; "none" for a guard
    arguments: dict
    group: str            # what it is summed up under
    held_out: bool
    guard: bool
    skip: str = ""

    def chat(self):
        return [{"role": role, "content": content} for role, content in self.messages]


@dataclasses.dataclass(frozen=True)
class Cases:
    all: tuple
    sha256: str           # of the files' bytes, in their order

    @property
    def runnable(self):
        return [case for case in self.all if not case.skip]


def load(paths, guard_paths=()):
    digest, cases, places = hashlib.sha256(), [], {}
    for path, guards in [(path, False) for path in paths] + [(path, True) for path in guard_paths]:
        data = _bytes(path)
        digest.update(b"%d %d\n" % (guards, len(data)) + data)
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            case = _case(_object(line, place), place, guards)
            if case.id in places:
                raise bad_cases(f"{place}: id {case.id!r} is taken by {places[case.id]}; ids name a case for good")
            places[case.id] = place
            cases.append(case)
    loaded = Cases(tuple(cases), digest.hexdigest())
    if not loaded.runnable:
        raise bad_cases(f"{', '.join((*paths, *guard_paths))}: no case to run")
    return loaded


def _bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise missing(f"cannot read the cases {path}: {error.strerror or error}") from error


def _object(line, place):
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise bad_cases(f"{place}: not a line of JSON in UTF-8: {error}") from error
    if not isinstance(value, dict):
        raise bad_cases(f"{place}: expected an object, found {str(value)[:60]!r}")
    return value


def _case(value, place, in_guards):
    name = value.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise bad_cases(f"{place}: `id` is missing or no text")
    tags = value.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_cases(f"{place}: `tags` is to be a list of text")
    if ("train" in tags) == ("held_out" in tags):
        raise bad_cases(f"{place}: `tags` needs exactly one of train and held_out, found {tags}")
    guard = in_guards or "guard" in tags
    capability, arguments = _expected(value, place, guard)
    group = value.get("capability") or ("guard" if guard else capability)
    skip = value.get("skip") or ""
    if not isinstance(group, str) or not isinstance(skip, str):
        raise bad_cases(f"{place}: `capability` and `skip` are text")
    return Case(str(name), _messages(value, place), capability, arguments, group, "held_out" in tags, guard, skip)


def _messages(value, place):
    if ("messages" in value) == ("prompt" in value):
        raise bad_cases(f"{place}: give `messages` or `prompt`, one of them")
    if "prompt" in value:
        if not isinstance(value["prompt"], str) or not value["prompt"]:
            raise bad_cases(f"{place}: `prompt` is to be text")
        return (("user", value["prompt"]),)
    messages = value["messages"]
    if not isinstance(messages, list) or not messages:
        raise bad_cases(f"{place}: `messages` is to be a list of at least one message")
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES or not isinstance(
                message.get("content"), str):
            raise bad_cases(f"{place}: a message has `role` ({', '.join(ROLES)}) and `content` (text)")
    if messages[-1]["role"] == "assistant":
        raise bad_cases(f"{place}: the last message is the assistant's, so there is nothing to answer")
    return tuple((message["role"], message["content"]) for message in messages)


def _expected(value, place, guard):
    if "expect" not in value:
        raise bad_cases(f"{place}: `expect` is missing; a guard expects null")
    expect = value["expect"]
    if expect is None:
        expect = {"capability": NONE}
    capability = expect.get("capability", "") if isinstance(expect, dict) else ""
    capability = NONE if capability is None else capability
    if not isinstance(capability, str) or not capability.strip():
        raise bad_cases(f"{place}: `expect` is to be null or an object with a `capability`")
    arguments = expect.get("arguments")
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        raise bad_cases(f"{place}: the expected `arguments` are to be an object")
    if guard and (capability != NONE or arguments):
        raise bad_cases(f"{place}: a guard must not fire, so it expects null or \"none\", found {capability!r}")
    return capability, arguments
