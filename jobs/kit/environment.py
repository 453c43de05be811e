"""Makes the virtual environment that the kit runs in, of pinned packages, and tests it on this machine's device.

usage: environment.py cpu|cuda|rocm [--torch WORDS] [DIR]      DIR: .venv at the project's root, unless given

* cpu: to rehearse, and to train small models on a CPU; without the CUDA libraries (cuda_stand_ins.py), a quarter of the
  download: 1.6 GB on disk.
* cuda: for an NVIDIA card, 6 GB. On Windows the CUDA build of PyTorch is not where pip looks first: --torch.
* rocm: for an AMD card. On Windows with Python 3.12 PyTorch and ROCm are those of requirements-rocm.txt; elsewhere --torch
  has what AMD's instructions ("PyTorch via PIP installation") give to pip, in one argument.

Does nothing where DIR has these versions already; one that was interrupted, or made for others, it makes anew. Refuses
to touch a folder that it did not make. Takes packages from pip's index as set up on the machine, and names none.
Exit codes: 0; 64 wrong arguments; 69 something is missing that it could not install; 72 no such device is visible.
"""
import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time

KIT = pathlib.Path(__file__).resolve().parent
WINDOWS = os.name == "nt"
MARK = ".sweep-kit"
#: MB that an environment takes while it is made.
ROOM = {"cpu": 3500, "cuda": 10000, "rocm": 12000}


class Refused(Exception):
    def __init__(self, message, code=69):
        super().__init__(message)
        self.code = code


def wanted(stack, torch_words):
    """Lines for pip. Of the CUDA libraries, a machine without a card needs the runtime alone."""
    lines = pins("requirements.txt")
    if torch_words:
        return [line for line in lines if name_of(line) not in ("torch", "triton")]
    linux = sys.platform == "linux" and platform.machine() == "x86_64"
    if stack == "cuda" and linux:
        lines += pins("requirements-cuda.txt")
    if stack == "cpu" and linux:
        lines += [line for line in pins("requirements-cuda.txt") if name_of(line) == "nvidia-cuda-runtime"]
    return lines


def makers(stack, windows=WINDOWS, python=sys.version_info[:2]):
    """What pip is given for PyTorch where it is not on pip's own index."""
    if stack == "rocm" and windows and python == (3, 12):
        text = (KIT / "requirements-rocm.txt").read_text(encoding="utf-8")
        return [line.strip() for line in text.splitlines() if line.startswith("https:")]
    if stack == "rocm" or stack == "cuda" and windows:
        why = " (requirements-rocm.txt is for Python 3.12)" if stack == "rocm" and windows else ""
        raise Refused(f"{stack} here needs --torch WORDS: what the maker's instructions give to `pip install` for PyTorch on "
                      f"this system{why}", 64)
    return []


def pins(name):
    text = (KIT / name).read_text(encoding="utf-8")
    return [line.split()[0] for line in text.splitlines() if re.match(r"[A-Za-z]", line)]


def name_of(line):
    return line.split("==")[0]


def met(venv, digest, lines):
    """Whole, of these pins, and nobody has installed others since."""
    try:
        if (venv / MARK).read_text(encoding="utf-8").strip() != f"whole {digest}":
            return False
    except OSError:
        return False
    site = list(venv.glob("lib/python3*/site-packages")) + list(venv.glob("Lib/site-packages"))
    found = {normal(one.metadata["Name"]): one.version
             for one in importlib.metadata.distributions(path=[str(path) for path in site])}
    # An index may add a local part (+cu130) to a version.
    return all((found.get(normal(name_of(line))) or "").split("+")[0] == line.split("==")[1] for line in lines)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def interpreter(venv):
    return venv / ("Scripts/python.exe" if WINDOWS else "bin/python")


def make(venv, stack, lines, torch_words, digest):
    venv.mkdir(parents=True, exist_ok=True)
    (venv / MARK).write_text("begun\n", encoding="utf-8")   # before all else: after a kill it is known as ours
    for path in venv.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    run("could not make a virtual environment", sys.executable, "-m", "venv", str(venv))
    say(f"installing into {venv} ({stack}): some minutes, once")
    python = str(interpreter(venv))
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--retries", "3"]
    failed = "pip could not install the packages; is its index reached from here?"
    if torch_words:
        run(failed, *pip, *torch_words)
    listed = venv / ".wanted"
    listed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(failed, *pip, "--no-deps", "-r", str(listed))
    if stack == "cpu" and sys.platform == "linux" and not torch_words:
        where = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                               capture_output=True, text=True, check=True).stdout.strip()
        run("the stand-ins for the CUDA libraries could not be made", python, str(KIT / "cuda_stand_ins.py"), where)
    tested(python, stack)
    (venv / MARK).write_text(f"whole {digest}\n", encoding="utf-8")


def tested(python, stack):
    test = [python, "-W", "ignore", str(KIT / "selftest.py"), "--stack", stack]
    ended = subprocess.run(test, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        checks = json.loads(ended.stdout)["checks"]
    except (ValueError, KeyError):
        raise Refused(f"the self-test ended with {ended.returncode}: {ended.stderr.strip()[-600:]}") from None
    for check in checks:
        what = ("works" if check["ok"] else check["message"])
        say(f"self-test: {check['name']}: {what}")
    if ended.returncode:
        raise Refused(f"the packages are there and do not work as {stack}", ended.returncode)


def run(failed, *command):
    if subprocess.run(command).returncode:
        raise Refused(failed)


def say(text):
    print(f"setup: {text}", flush=True)


@contextlib.contextmanager
def alone(venv):
    """Two at once: the second waits, and finds it done."""
    with open(f"{venv}.lock", "w", encoding="utf-8") as lock:
        if WINDOWS:
            import msvcrt
            while True:
                with contextlib.suppress(OSError):   # it gives up after ten seconds
                    msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
                    break
        else:
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def setup(asked):
    if sys.version_info < (3, 11):
        raise Refused(f"needs Python 3.11 or newer, and this is {platform.python_version()}")
    root = KIT.parent.parent
    if not asked.dir and not (root / "Cargo.toml").is_file():
        raise Refused("this kit lies in no checkout of the project; say which folder to make", 64)
    venv = pathlib.Path(os.path.abspath(asked.dir or root / ".venv"))
    torch_words = shlex.split(asked.torch or "", posix=not WINDOWS) or makers(asked.stack)
    lines = wanted(asked.stack, torch_words)
    made_of = [asked.stack, *torch_words, *lines, (KIT / "cuda_stand_ins.py").read_text(encoding="utf-8")]
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    venv.parent.mkdir(parents=True, exist_ok=True)
    with alone(venv):
        if venv.exists() and not (venv / MARK).exists() and (not venv.is_dir() or any(venv.iterdir())):
            raise Refused(f"{venv} is there and was not made by this script; give another folder, or remove it", 64)
        if met(venv, digest, lines):
            return say(f"{venv} has these versions already")
        free = shutil.disk_usage(venv.parent).free // 10**6
        if free < ROOM[asked.stack]:
            raise Refused(f"needs {ROOM[asked.stack]} MB free beside {venv}, found {free}")
        started = time.monotonic()
        make(venv, asked.stack, lines, torch_words, digest)
        say(f"done in {time.monotonic() - started:.0f} s; for a shell: "
            + (f"{venv}\\Scripts\\activate" if WINDOWS else f". {venv}/bin/activate"))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.format_usage()}setup: {message}\n")


def main():
    parser = Parser(prog="setup", description=__doc__.splitlines()[0])
    parser.add_argument("stack", choices=("cpu", "cuda", "rocm"))
    parser.add_argument("--torch")
    parser.add_argument("dir", nargs="?")
    try:
        setup(parser.parse_args())
    except Refused as refused:
        print(f"setup: {refused}", file=sys.stderr)
        return refused.code
    except OSError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 69
    return 0


if __name__ == "__main__":
    sys.exit(main())
