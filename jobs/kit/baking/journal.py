"""The file of answers: a first line that says what they are answers to, then one line for each case and pass.

It survives a kill at any moment: a torn end is cut off, and what was answered is not asked again. Answers to other
cases, models or settings are not mixed in: then the file is begun anew, and that is said. A line that repeats a
(model, pass, case) counts for nothing.
"""
import json
import os

VERSION = 1


class Journal:
    """`answers` maps (label, pass, case id) to a line."""

    def __init__(self, path, file, answers):
        self.path, self.file, self.answers = path, file, answers

    @classmethod
    def open(cls, path, about):
        """`about` is what answers depend on: {"cases": sha256, "settings": {...}, "models": {...}}."""
        head = {"bake": VERSION, **about}
        lines, size = _whole_lines(path)
        if not lines:
            return cls(path, _anew(path, head), {})
        if lines[0] != head:
            print(f"{os.path.basename(path)}: {_changed(lines[0], head)} changed: all cases are asked anew", flush=True)
            return cls(path, _anew(path, head), {})
        answers = {}
        for line in lines[1:]:
            answers.setdefault((line["model"], line["pass"], line["case"]), line)
        file = open(path, "r+b", buffering=0)
        file.truncate(size)
        file.seek(size)
        if answers:
            print(f"{len(answers)} answers are there already and are not asked again", flush=True)
        return cls(path, file, answers)

    def add(self, line):
        key = (line["model"], line["pass"], line["case"])
        if key in self.answers:
            return
        self.file.write(_line(line))   # one write: a reader never meets a half of it
        self.answers[key] = line

    def keep(self):
        """Onto the disk, at the end of each pass: before that, a lost machine costs the pass at most."""
        os.fsync(self.file.fileno())

    def close(self):
        self.keep()
        self.file.close()


def _line(value):
    return (json.dumps(value, ensure_ascii=False) + "\n").encode(errors="replace")


def _whole_lines(path):
    """(lines, bytes that they take): up to the first that is not whole; all after it is asked again."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [], 0
    lines, size = [], 0
    for raw in data.splitlines(keepends=True):
        try:
            line = json.loads(raw.decode())
        except (ValueError, RecursionError):
            line = None
        if not raw.endswith(b"\n") or not isinstance(line, dict) or lines and not _is_answer(line):
            break
        lines.append(line)
        size += len(raw)
    if size < len(data):
        print(f"{os.path.basename(path)}: its last {len(data) - size} bytes are torn and are dropped", flush=True)
    return lines, size


def _is_answer(line):
    return (isinstance(line.get("model"), str) and isinstance(line.get("pass"), int) and isinstance(line.get("case"), str)
            and isinstance(line.get("ok"), bool) and isinstance(line.get("seconds"), (int, float)))


def _anew(path, head):
    """Whole or not there: a head without its end would be taken for another's."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    partial = f"{path}.tmp"
    with open(partial, "wb") as file:
        file.write(_line(head))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return open(path, "ab", buffering=0)


def _changed(old, new):
    """Which of the things that answers depend on are not as they were."""
    found = []
    for name in new:
        one, other = old.get(name), new[name]
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name} ({key})" for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        elif one != other:
            found.append(name)
    return ", ".join(found) or "its form"
