"""How a job's program talks to sweep: it reads its configuration from $SWEEP_CONFIG and appends JSON lines to
$SWEEP_REPORT. Standard library only, Python 3.9 or newer; README.md beside this file has the format for every other
language. It never decides anything: without $SWEEP_REPORT the lines go to standard output, so that a program can be
tried by hand.
"""

import json
import math
import os
import signal
import sys

AGAIN = 75  # exit code: there is a checkpoint, start me again
BAD_CONFIG = 78  # exit code: the configuration is wrong, do not start me again


def config():
    """The whole configuration of this job, as a dict."""
    path = os.environ.get("SWEEP_CONFIG")
    if not path:
        sys.exit(_complain("SWEEP_CONFIG is not set: this program is started by sweep", BAD_CONFIG))
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(_complain(f"cannot read the configuration {path}: {error}", BAD_CONFIG))
    if not isinstance(read, dict):
        sys.exit(_complain(f"the configuration {path} is no JSON object", BAD_CONFIG))
    return read


def metric(step, **values):
    """Numbers of one step: metric(25, loss=0.4)."""
    _append({"metric": values, "step": step})


def memory(**observation):
    """A measured peak and what it depended on: memory(peak_allocated_mib=6634.0, steps=2)."""
    _append({"memory": observation})


def checkpoint(path, step):
    """A checkpoint that is complete on disk."""
    _append({"checkpoint": os.path.abspath(path), "step": step})


def stream_file():
    """Where the allocation stream of the step may be left, packed with gzip; None where nobody asks for one."""
    return os.environ.get("SWEEP_STREAM_FILE") or None


def progress(fraction):
    """How much is done, from 0 to 1."""
    _append({"progress": min(1.0, max(0.0, float(fraction)))})


def result(value):
    """What came out, once, at the end: a job that succeeds has one."""
    _append({"result": value})


def peak_resident_mib():
    """Peak resident memory of this process so far, or None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows; the agent measures there
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    return peak * unit / 2**20


class Stop:
    """Notices that sweep asks the program to end (SIGTERM; on Windows Ctrl-Break), so that it can save first and exit
    with AGAIN."""

    def __init__(self):
        self.asked = False
        signal.signal(getattr(signal, "SIGBREAK", signal.SIGTERM), self._on_signal)

    def _on_signal(self, _number, _frame):
        self.asked = True


def _append(line):
    # One write of a whole line: a reader never meets a half of one that is still being written, and two processes
    # that append never mix theirs.
    data = (json.dumps(_plain(line), allow_nan=False) + "\n").encode()
    path = os.environ.get("SWEEP_REPORT")
    if not path:
        sys.stdout.write(data.decode())
        sys.stdout.flush()
        return
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def _plain(value):
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _complain(message, code):
    print(json.dumps({"error": "bad_config", "message": message}), flush=True)
    print(message, file=sys.stderr, flush=True)
    return code
