"""How the kit's GPU programs fail: one line of JSON on standard output, a sentence on standard error, an exit code.

The codes and names are in README.md. The framework's own text is passed on whole: the agent reads the numbers of an out
of memory from it. Standard library only, so that a missing package can be told. It decides nothing about retries.
"""
import argparse
import json
import re
import sys

USAGE = 64           # arguments or settings that cannot be used
BAD_DATA = 65        # a data file that cannot be used
MISSING_FILE = 66    # weights, data or an adapter that are not there
SERVER = 68          # a server that is not there or fails: another time it may be well
MISSING_PACKAGE = 69
BROKEN_PACKAGE = 70  # a library that is there and cannot be loaded
HOST_MEMORY = 71     # the host's memory ran out, or would have
NO_GPU = 72          # the recipe needs a device that the process does not see
GPU_OOM = 80
GPU_FAULT = 81
DIVERGED = 82        # a loss that is no number

_FAULTS = re.compile(r"illegal memory access|unspecified launch failure|illegal instruction|uncorrectable ECC|fallen off "
                     r"the bus|GPU is lost|launch timed out|Memory access fault by GPU|HSA_STATUS_ERROR|GPU Hang|\bXid\b|"
                     r"CUDA error: unknown error|devices are busy or unavailable")
_OOM = re.compile(r"(CUDA|HIP) out of memory|(CUDA|HIP) error: out of memory|BLAS_STATUS_ALLOC_FAILED")
_NO_GPU = re.compile(r"No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|no kernel image is available")
_SIZE = r"([\d.]+) (bytes|[KMG]iB)"
_NUMBERS = {
    "wanted_mib": rf"Tried to allocate {_SIZE}", "capacity_mib": rf"total capacity of {_SIZE}",
    "free_mib": rf"of which {_SIZE} is free", "allocated_mib": rf"{_SIZE} is allocated by PyTorch",
    "allowed_mib": rf"{_SIZE} allowed", "unallocated_mib": rf"{_SIZE} is reserved by PyTorch but unallocated",
}
_MIB = {"bytes": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10}


class Failure(Exception):
    """A failure that the program itself noticed."""

    def __init__(self, name, message, code, **more):
        super().__init__(message)
        self.name, self.code, self.more = name, code, more


class Arguments(argparse.ArgumentParser):
    """A parser whose complaint is a failure like any other."""

    def error(self, message):
        raise Failure("usage", f"{message}; {self.format_usage().strip()}", USAGE)


def told(error):
    """(name, exit code, more): what an exception is, by its type and by its text."""
    text = str(error)
    if isinstance(error, Failure):
        return error.name, error.code, error.more
    if type(error).__name__ == "RecipeError":
        return "bad_recipe", USAGE, {}
    if _OOM.search(text):
        return "gpu_oom", GPU_OOM, numbers(text)
    if _FAULTS.search(text):
        return "gpu_fault", GPU_FAULT, {}
    if _NO_GPU.search(text):
        return "no_gpu", NO_GPU, {}
    if isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in text:
        return "host_oom", HOST_MEMORY, {}
    if isinstance(error, ModuleNotFoundError):
        return "missing_package", MISSING_PACKAGE, {"package": error.name}
    if isinstance(error, ImportError):
        wants = re.search(r"requires? (?:the )?[`']?([\w-]+)", text)
        return "missing_package", MISSING_PACKAGE, {"package": wants.group(1) if wants else error.name}
    if isinstance(error, OSError) and ("cannot open shared object" in text or "DLL load failed" in text):
        return "broken_package", BROKEN_PACKAGE, {}
    if isinstance(error, FileNotFoundError):
        return "missing_file", MISSING_FILE, {"path": error.filename}
    return None


def numbers(text):
    """Those of an out of memory, in MiB."""
    found = {name: re.search(pattern, text) for name, pattern in _NUMBERS.items()}
    return {name: round(float(match[1]) * _MIB[match[2]], 2) for name, match in found.items() if match}


def guarded(program):
    """Runs it and gives its exit code. What is not known fails with Python's own traceback and code 1."""
    try:
        return program()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt):
            return 130
        known = told(error)
        if known is None:
            raise
        name, code, more = known
        print(json.dumps({"error": name, "message": str(error), **more}), flush=True)
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return code
