"""What the checks share: a coordinator on this machine, an agent under Wine, and looking for processes that should be
gone. Every process that is started here is ended here."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

LAB = os.environ["SWEEP_WINDOWS_LAB"]
SWEEP = os.environ["SWEEP_LINUX"]
EXE = os.environ["SWEEP_EXE"]
WORKER = os.environ["SWEEP_WORKER"]
SOON = 120
HIDDEN = [name for name in os.environ if name.startswith("SWEEP_")]


def windows(path):
    """A path of this machine as a Windows program says it: Wine's drive Z is `/`."""
    return "Z:" + path.replace("/", "\\")


def until(what, check, longest=SOON):
    end = time.monotonic() + longest
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"never came true: {what}")
        time.sleep(0.1)


def environment():
    return {name: value for name, value in os.environ.items() if name not in HIDDEN}


def processes(*words):
    """Ids of this machine's processes whose command line has all these words: Wine's are among them."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        if line and all(word in line for word in words):
            found.append(int(name))
    return found


def wine(*words, check=True, timeout=SOON):
    # Not through pipes: the first program of a session starts others, which would hold them.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        done = subprocess.run(
            ["wine64", *words], env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=error, timeout=timeout
        )
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace").replace("\r", ""))
    out, error = texts
    if check and done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{out}\n{error}")
    return done.returncode, out, error


class Room:
    """A folder with a coordinator over TLS and an agent under Wine that joined it."""

    def __init__(self, host="tower"):
        self.folder = tempfile.mkdtemp(prefix="windows check ", dir=LAB)
        self.host = host
        self.data = self.path("keeper")
        self.agent = None
        self.sweeps = 0
        self.coordinator = None

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def open(self):
        self.sweep("coordinator", "init", "--name", "localhost")
        self.coordinator = subprocess.Popen(
            [SWEEP, "--data", self.data, "coordinator", "run", "--listen", "127.0.0.1:0"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = re.search(r"https://\S+", self.coordinator.stdout.readline())[0]
        joined = self.sweep("token", "create", "--join")
        self.token = joined.strip().splitlines()[-1]

    def close(self):
        self.kill_agent()
        for pid in processes("sweep.exe", os.path.basename(self.folder)):
            os.kill(pid, signal.SIGKILL)
        if self.coordinator:
            self.coordinator.kill()
            self.coordinator.wait()
            self.coordinator.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self, *words, check=True):
        """What a command of this machine's own `sweep` says."""
        done = subprocess.run(
            [SWEEP, "--data", self.data, *words], env=environment(), capture_output=True, text=True, timeout=SOON
        )
        if check and done.returncode != 0:
            raise AssertionError(f"sweep {words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def host_file(self, more=""):
        text = (
            f'name = "{self.host}"\n{more}\n'
            '[[device]]\nkind = "cpu"\nusable = "4 GiB"\nslots = 4\n'
        )
        with open(self.path("agent.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    def start_agent(self):
        words = ["--data", windows(self.path("agent data")), "agent", "run", "--config", windows(self.path("agent.toml"))]
        words += ["--coordinator", self.url, "--token", self.token]
        log = open(self.path("agent.log"), "ab")
        self.agent = subprocess.Popen(["wine64", EXE, *words], env=environment(), stdout=log, stderr=log)
        log.close()
        until("the agent is taken in", lambda: self.is_heard())

    def is_heard(self):
        assert self.agent is None or self.agent.poll() is None, self.said()
        hosts = json.loads(self.sweep("hosts", "--json"))["hosts"]
        return any(host["name"] == self.host and host["state"] == "up" for host in hosts)

    def said(self):
        with open(self.path("agent.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-6000:]

    def kill_agent(self):
        """As a power cut would; what it started goes on."""
        if self.agent:
            self.agent.kill()
            self.agent.wait()
            self.agent = None

    def submit(self, words, axes="n = [1]", more="", program=None):
        self.sweeps += 1
        run = json.dumps([program or windows(WORKER), *words])
        text = (
            f'[sweep]\nname = "w{self.sweeps}"\n[axes]\n{axes}\n[train]\nrun = {run}\n{more}\n'
            '[place]\ndevice = "cpu"\nmemory = "32 MiB"\n[retry]\ninterrupted = 0\n'
        )
        file = self.path(f"w{self.sweeps}.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        return self.sweep("submit", file).split()[0]

    def attempts(self, sweep):
        return json.loads(self.sweep("history", "--sweep", sweep, "--json"))["attempts"]

    def ended(self, sweep, jobs=1):
        """Its attempts, once all jobs are settled."""

        def look():
            all_of = self.attempts(sweep)
            done = [one for one in all_of if one.get("outcome")]
            return all_of if len(done) == len(all_of) >= jobs else None

        return until(f"{sweep} ends", look)

    def log(self, job):
        return self.sweep("logs", job).replace("\r", "")

    def wait_for_log(self, job, text):
        until(f"{job} says {text}", lambda: text in self.sweep("logs", job, check=False))

    def folder_of(self, sweep, trial=1, number=1):
        return self.path("agent data", "agents", self.host, "attempts", sweep, str(trial), "train", str(number))
