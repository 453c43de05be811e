"""Judges one reply: the first JSON object in it against what the case expects. It never looks at how the reply came.

A reply without such an object is unparseable: never right, and no breach either, as nothing would fire. Expected
arguments must be there and equal; further ones do not matter, as authors write down those that a case is about.
"""
import dataclasses
import json

from .cases import NONE


@dataclasses.dataclass(frozen=True)
class Verdict:
    ok: bool
    breach: bool
    unparseable: bool
    answer: object        # the object as found, or None


def judge(case, text):
    answer = first_object(text)
    fired = _capability(answer)
    if fired is None:
        return Verdict(False, False, True, answer)
    if case.guard:
        return Verdict(fired == NONE, fired != NONE, False, answer)
    ok = fired == case.capability and _has(answer, case.arguments)
    return Verdict(ok, False, False, answer)


def first_object(text):
    """The first place where a JSON object begins and ends; text around it is let pass."""
    decoder, at = json.JSONDecoder(parse_constant=_refuse), text.find("{")
    while at >= 0:
        try:
            return decoder.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
    return None


def _refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def _capability(answer):
    """The name that would fire, "none", or None where the object names nothing."""
    if not isinstance(answer, dict) or "capability" not in answer:
        return None
    name = answer["capability"]
    if name is None:
        return NONE
    return name.strip() or None if isinstance(name, str) else None


def _has(answer, arguments):
    """Arguments stand beside the capability, or in an object of their own."""
    nested = answer.get("arguments")
    given = {**answer, **nested} if isinstance(nested, dict) else answer
    return all(name in given and same(given[name], wanted) for name, wanted in arguments.items())


def same(one, other):
    """Equal as values: case and outer spaces of text do not matter, 5 is 5.0, true is not 1."""
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other
