"""Plain weights that were made from a GGUF file, kept in $SWEEP_CACHE_DIR for the programs after this one: to read them
out of the GGUF takes half a minute each time. Keeps nothing large, and nothing where no such folder is named; whoever
cannot write there goes on without.
"""
import hashlib
import os
import pathlib
import shutil
import tempfile
import time

import transformers

#: Weights of a larger file would fill the disk unasked; its owner can declare a folder of plain ones.
LARGEST = 2**30
#: What is older and not whole was left by a program that was killed.
STALE_SECONDS = 3600


def folder(file, half):
    """Where the weights of this file are kept in this precision, or None where they are not."""
    cache = os.environ.get("SWEEP_CACHE_DIR")
    file = pathlib.Path(file).resolve()
    there = file.stat()
    if not cache or there.st_size > LARGEST:
        return None
    # Another file of that name, or another version that reads it, is another translation.
    about = f"{file}\n{there.st_size}\n{there.st_mtime_ns}\n{transformers.__version__}\n{half}"
    return pathlib.Path(cache) / f"{file.stem}-{hashlib.sha256(about.encode()).hexdigest()[:16]}"


def made(kept, make):
    """Whether the folder is there in the end; `make` fills one. Whole or not at all, also beside others who make it."""
    if kept.is_dir():
        return True
    part = None
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for left in kept.parent.glob(f"{kept.name}.*"):
            if left.stat().st_mtime < time.time() - STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        part = pathlib.Path(tempfile.mkdtemp(prefix=f"{kept.name}.", dir=kept.parent))
        make(part)
        for file in part.iterdir():
            with open(file, "rb+") as written:
                os.fsync(written.fileno())
        part.rename(kept)
    except OSError as error:
        if not kept.is_dir():
            print(f"the plain weights are not kept: {error}", flush=True)
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    return kept.is_dir()
