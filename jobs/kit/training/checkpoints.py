"""Checkpoints that are whole or not there. The trainer writes a checkpoint's files in place; a list of them with their
sizes, written last and flushed, makes it one. What has no such list, or another size than it says, is never gone on from.

Adapters of all steps stay, for an evaluation of every checkpoint; optimizer states only of the newest two.
"""
import json
import os
import pathlib
import shutil
import sys

WHOLE = "whole.json"
KEPT = 2
#: What only a training that goes on needs.
STATE = ("optimizer.pt", "scheduler.pt", "rng_state.pth")


class Keeper:
    def __init__(self, folder, report):
        self.folder, self.report = pathlib.Path(folder), report

    def finished(self, step, state):
        """Called when the trainer has written all files of one."""
        path = self.folder / f"checkpoint-{step}"
        sizes = {}
        for file in sorted(one for one in path.rglob("*") if one.is_file()):
            _flush(file)
            sizes[file.relative_to(path).as_posix()] = file.stat().st_size
        _flush(path)
        write_json(path / WHOLE, {"step": step, "files": sizes, "goes_on": True})
        self.report.checkpoint(str(path), step)
        for older in all_of(self.folder)[:-KEPT]:
            _adapter_only(older)


def all_of(folder):
    """Folders of whole checkpoints, oldest first."""
    found = [path for path in pathlib.Path(folder).glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    return sorted((path for path in found if _is_whole(path)), key=step_of)


def step_of(path):
    return int(pathlib.Path(path).name.rpartition("-")[2])


def newest(folder):
    """The newest that a training can go on from; broken ones are told and removed, so that they are written anew."""
    for path in sorted(pathlib.Path(folder).glob("checkpoint-*"), key=lambda path: path.name):
        if not _is_whole(path):
            print(f"{path.name} is not whole: it is not used", file=sys.stderr, flush=True)
            shutil.rmtree(path, ignore_errors=True)
    going = [path for path in all_of(folder) if json.loads((path / WHOLE).read_text())["goes_on"]]
    return going[-1] if going else None


def _is_whole(path):
    try:
        said = json.loads((path / WHOLE).read_text(encoding="utf-8"))
        return all((path / name).stat().st_size == size for name, size in said["files"].items())
    except (OSError, ValueError, KeyError):
        return False


def _adapter_only(path):
    said = json.loads((path / WHOLE).read_text(encoding="utf-8"))
    if not said["goes_on"]:
        return
    said["goes_on"] = False
    said["files"] = {name: size for name, size in said["files"].items() if name not in STATE}
    write_json(path / WHOLE, said)   # first: a kill between the two leaves files that nobody counts on
    for name in STATE:
        (path / name).unlink(missing_ok=True)


def write_json(path, value):
    """Whole or not at all, whenever this process or its machine dies."""
    part = f"{path}.{os.getpid()}.tmp"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _flush(path):
    """A folder's entries, too, where the system can."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
