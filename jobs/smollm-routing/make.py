"""Writes the made-up household commands of smollm-routing.toml: what is trained, what is held out, cases and guards.

usage: python3 make.py            (writes beside itself; the files are kept in the project, and this says how they came)

Held out: rooms, numbers and ways of saying it that no training example has. Guards: commands that are quoted, pasted or
talked about, and must not fire; their counterweights look like them and must. Invented, all of it.
"""
import itertools
import json
import pathlib
import random

HERE = pathlib.Path(__file__).parent
SYSTEM = "Route the command. Answer in JSON."
ROOMS, OTHER_ROOMS = ("kitchen", "bedroom", "hall", "office", "garage"), ("attic", "cellar", "nursery")
NUMBERS, OTHER_NUMBERS = (5, 10, 15, 19, 20, 21, 30, 45), (7, 12, 18, 25)
#: Capability: ways of saying it in training, and ways that are held out.
WAYS = {
    "lights.on": (("turn on the {room} light", "switch the {room} lamp on", "lights on in the {room}",
                   "make the {room} bright", "it is too dark in the {room}", "{room} light, please"),
                  ("could you light up the {room}", "I need light in the {room}")),
    "lights.off": (("turn off the {room} light", "switch the {room} lamp off", "make the {room} dark",
                    "lights out in the {room}", "it is too bright in the {room}", "put the {room} lamp out"),
                   ("kill the lamp in the {room}", "no more light in the {room}")),
    "heating.set": (("set the {room} to {number} degrees", "make it {number} degrees in the {room}",
                     "heat the {room} to {number} degrees", "{number} degrees in the {room}, please"),
                    ("warm the {room} up to {number} degrees",)),
    "music.play": (("play some music in the {room}", "start a playlist in the {room}", "radio on in the {room}",
                    "I want to hear a tune in the {room}"),
                   ("put a song on in the {room}",)),
    "timer.set": (("set a timer for {number} minutes", "start a {number} minute timer", "ring in {number} minutes",
                   "tell me when {number} minutes are over"),
                  ("wake me in {number} minutes",)),
}
QUOTED = (('what does "{command}" mean', 'my sister wrote "{command}"', "translate into French: {command}"),
          ('how do you spell "{command}"', 'pasted from the manual: "{command}"'))
FIRES = (("please {command}", "as I said, {command}"), ("I wrote it down, so do it: {command}",))


def commands(side):
    """Every command of training (0) or held out (1), with its capability."""
    rooms, numbers = (ROOMS, OTHER_ROOMS)[side], (NUMBERS, OTHER_NUMBERS)[side]
    for capability, ways in WAYS.items():
        for way, room, number in itertools.product(ways[side], rooms, numbers):
            yield way.format(room=room, number=number), capability


def every(side):
    plain = sorted(set(commands(side)))
    quoted = [(way.format(command=command), "none") for command, _ in plain for way in QUOTED[side]]
    firing = [(way.format(command=command), capability) for command, capability in plain for way in FIRES[side]]
    return plain, quoted, firing


def messages(text):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def answer(capability):
    return json.dumps({"capability": capability})


def pick(draw, pairs, count):
    """As many of each capability as there are of any other."""
    by = {}
    for text, capability in draw.sample(pairs, len(pairs)):
        by.setdefault(capability, []).append((text, capability))
    return list(itertools.islice(
        (pair for row in itertools.zip_longest(*by.values()) for pair in row if pair), count))


def example(text, capability):
    return {"messages": [*messages(text), {"role": "assistant", "content": answer(capability)}], "class": capability}


def case(name, text, capability, *tags):
    return {"id": name, "messages": messages(text), "expect": None if "guard" in tags else {"capability": capability},
            "tags": list(tags)}


def write(name, lines):
    (HERE / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8", newline="\n")


def main():
    draw = random.Random(7)
    plain, quoted, firing = every(0)
    trained = pick(draw, plain, 130) + pick(draw, quoted, 50) + pick(draw, firing, 60)
    draw.shuffle(trained)
    write("train.jsonl", (example(*pair) for pair in trained))
    other_plain, other_quoted, other_firing = every(1)
    held_out = pick(draw, other_plain, 14) + pick(draw, other_quoted, 5) + pick(draw, other_firing, 5)
    write("held_out.jsonl", (example(*pair) for pair in held_out))
    seen = [pair for pair in trained if pair in set(plain)][:8]
    cases = [case(f"train-{number}", *pair, "train") for number, pair in enumerate(seen, 1)]
    cases += [case(f"held-out-{number}", *pair, "held_out") for number, pair in enumerate(pick(draw, other_plain, 15), 1)]
    cases += [case(f"counterweight-{number}", *pair, "held_out") for number, pair in
              enumerate(pick(draw, other_firing, 5), 1)]
    write("cases.jsonl", cases)
    guards = [case(f"guard-train-{number}", *pair, "train", "guard") for number, pair in
              enumerate([pair for pair in trained if pair in set(quoted)][:4], 1)]
    guards += [case(f"guard-{number}", *pair, "held_out", "guard") for number, pair in
               enumerate(pick(draw, other_quoted, 8), 1)]
    write("guards.jsonl", guards)


if __name__ == "__main__":
    main()
