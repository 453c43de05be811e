"""Rehearsals of a whole table of recipes: a stream for each content, in a folder, made once.

Rows that differ in what was measured, or under which limit, share a stream. Each is made in a process of its own, so
that no rehearsal sees what another left; on systems that can, those are copies of this one, with its libraries loaded.
"""
import ctypes
import dataclasses
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import signal
import sys

from step import recipe as recipes

from . import devices, versions

KIT = pathlib.Path(__file__).resolve().parent.parent


def kit_hash():
    """Of everything that a rehearsal runs: another kit makes other streams."""
    summed = hashlib.sha256()
    for path in sorted([KIT / "rehearse.py", *KIT.glob("step/*.py"), *KIT.glob("rehearsal/*.py")]):
        # Line ends are the working copy's affair.
        summed.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n"))
    return summed.hexdigest()[:16]


def content_key(row):
    recipe, device = recipes.of_row(row), devices.of(row.get("gpu"), row.get("vendor") or "")
    own = pathlib.Path(recipe.model, "config.json") if recipe.model_config is None and recipe.model else None
    said = {**dataclasses.asdict(recipe), "memory_fixes": sorted(recipe.memory_fixes), "device": dataclasses.asdict(device),
            "config": own.read_text(encoding="utf-8") if own and own.is_file() else None,
            "layers": row.get("num_hidden_layers"), "versions": versions.installed(), "kit": kit_hash()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def run(table, folder, at_once, rehearse_one):
    """A line each on standard output, in the order of the rows. `rehearse_one` is rehearse.py's `one`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines, todo = [], {}
    for number, line in enumerate(pathlib.Path(table).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key = content_key(row)
        except (recipes.RecipeError, ValueError, AttributeError) as error:
            lines.append((number, None, {"error": "bad_recipe", "message": str(error)}))
            continue
        lines.append((number, key, None))
        if not (folder / f"{key}.json").exists():
            todo.setdefault(key, row)
    failed = _made(folder, list(todo.items()), max(1, at_once), rehearse_one)
    for number, key, said in lines:
        known = folder / f"{key}.json"
        if said is None:
            said = json.loads(known.read_text(encoding="utf-8")) if known.exists() else failed.get(key)
        stream = f"{key}.gz" if key and "error" not in said else None
        print(json.dumps({"line": number, "stream": stream, **said}), flush=True)
    return 0


def _made(folder, todo, at_once, rehearse_one):
    """What of it failed, by key: that is not kept, since it may go well another day."""
    ways = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in ways else "spawn")
    failed, running = {}, []
    while todo or running:
        while todo and len(running) < at_once:
            key, row = todo.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_one_row, args=(folder, key, row, theirs, rehearse_one), daemon=True)
            process.start()
            theirs.close()
            running.append((key, process, ours))
        ready = multiprocessing.connection.wait([ours for _, _, ours in running])
        for one in [one for one in running if one[2] in ready]:
            running.remove(one)
            key, process, ours = one
            try:
                said = ours.recv()
            except EOFError:   # killed
                said = None
            process.join()
            if said is None:
                said = {"error": "failed", "message": f"the rehearsal's process ended with {process.exitcode}"}
            if "error" in said:
                failed[key] = said
    return failed


def _one_row(folder, key, row, answer, rehearse_one):
    _end_with_parent()
    recipe, device = recipes.of_row(row), devices.of(row.get("gpu"), row.get("vendor") or "")
    code, said = rehearse_one(recipe, device, folder / f"{key}.gz", row.get("num_hidden_layers"))
    if code == 0:   # after its stream, so that a summary alone never says that there is one
        part = folder / f"{key}.json.part"
        part.write_text(json.dumps(said), encoding="utf-8")
        part.replace(folder / f"{key}.json")
    answer.send(said)
    answer.close()


def _end_with_parent():
    """On Linux; elsewhere it goes on to its end, and what it keeps is whole."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)   # PR_SET_PDEATHSIG
