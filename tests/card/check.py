"""Checks on a machine with one NVIDIA card what only a card can show; README.md has the table. Arguments: the binary
of sweep, and which checks (default: all). Starts its own coordinator and agent in a temporary folder, and ends both. Never resets or sets up the card."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import discovery

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs.py"


def until(what, check, seconds=60):
    end = time.monotonic() + seconds
    while True:
        got = check()
        if got:
            return got
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def used_mib():
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()[0])


class System:
    """A coordinator and an agent with this machine's card and two slots of its CPU."""

    def __init__(self, sweep, folder, more=""):
        self.sweep, self.folder = sweep, pathlib.Path(folder)
        self.data = self.folder / "data"
        host = self.folder / "host.toml"
        host.write_text(f'name = "here"\npython = "{sys.executable}"\nrehearsals = 0\n{more}'
                        '[[device]]\nkind = "cpu"\nusable = "4 GiB"\nslots = 2\n', encoding="utf-8")
        text = self.one("agent", "devices")
        self.card = text["found"][0]["id"]
        with host.open("a", encoding="utf-8") as file:
            file.write(f'[[device]]\nkind = "gpu"\nid = "{self.card}"\n')
        self.parts = [self.start("coordinator", "run", "--listen", "127.0.0.1:0")]
        until("a coordinator", lambda: self.try_one("list") is not None)
        self.parts.append(self.start("agent", "run", "--config", str(host)))
        until("its host", lambda: [one for one in self.one("hosts")["hosts"] if one["state"] == "up"])

    def start(self, *words):
        log = open(self.folder / f"{words[0]}.log", "w", encoding="utf-8")
        return subprocess.Popen([self.sweep, "--data", str(self.data), *words], stdout=log, stderr=log)

    def try_one(self, *words):
        ran = subprocess.run([self.sweep, "--data", str(self.data), "--json", *words], capture_output=True, text=True)
        return json.loads(ran.stdout) if ran.returncode in (0, 1) and ran.stdout else None

    def one(self, *words):
        said = self.try_one(*words)
        assert said is not None, f"sweep {' '.join(words)} gave no document"
        return said

    def submit(self, name, words, place):
        """A sweep of one training; gives its job."""
        run = json.dumps([sys.executable, str(PROGRAMS), *map(str, words)])
        file = self.folder / f"{name}.toml"
        file.write_text(f'[sweep]\nname = "{name}"\n[train]\nrun = {run}\n[place]\n{place}\n', encoding="utf-8")
        subprocess.run([self.sweep, "--data", str(self.data), "submit", str(file), "-q"], check=True, stdout=subprocess.DEVNULL)
        return f"{name}/1/train"

    def attempts(self, name):
        return self.one("history", "--sweep", name)["attempts"]

    def ended(self, name, seconds=60):
        def over():
            return [one for one in self.attempts(name) if one.get("outcome")]

        return until(f"{name} ended", over, seconds)

    def stop(self):
        for part in self.parts:
            part.terminate()
        for part in self.parts:
            part.wait(30)


def pin(system):
    system.submit("pin", ["seen"], 'device = "gpu"\nmemory = "2 GiB"')
    (attempt,) = system.ended("pin")
    print(" ", attempt["outcome"], attempt["result"])
    assert attempt["result"] == {"visible": system.card, "uuid": system.card, "cards": 1}, attempt


def foreign(system):
    total = system.one("agent", "devices")["found"][0]["now"]["memory"]["total"] >> 20
    most, need = int(total * 0.7), int(total * 0.5)

    def held():
        (host,) = system.one("hosts")["hosts"]
        return next(one["held_mib"] for one in host["devices"] if one["id"] == system.card)

    before = held()
    other = subprocess.Popen([sys.executable, str(PROGRAMS), "hold", str(most)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().startswith("held")
        until("the host says it", lambda: held() >= most)
        print(f"  held {before} MiB before, {held()} MiB with another process's {most} MiB")
        job = system.submit("foreign", ["seen"], f'device = "gpu"\nmemory = "{need} MiB"')
        why = until("it waits", lambda: (lambda said: said if said.get("code") == "held_by_others" else None)(system.one("why", job)))
        print(" ", why["reason"])
        time.sleep(5)
        assert not system.attempts("foreign"), "it was started all the same"
    finally:
        other.kill()
        other.wait()
    (attempt,) = system.ended("foreign")
    print("  with that process gone:", attempt["outcome"])
    assert attempt["outcome"] == "succeeded", attempt


def evict(system):
    """In a system of its own, whose owner's command ends who holds the card."""
    total = system.one("agent", "devices")["found"][0]["now"]["memory"]["total"] >> 20
    most, need = int(total * 0.7), int(total * 0.5)
    other = subprocess.Popen([sys.executable, str(PROGRAMS), "hold", str(most)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().startswith("held")
        device = lambda: next(one for one in system.one("hosts")["hosts"][0]["devices"] if one["id"] == system.card)
        until("the host says who", lambda: device().get("holders"))
        print(f"  {used_mib()} MiB used by {device()['holders']}, {device()['held_mib']} MiB count as held")
        system.submit("evict", ["seen"], f'device = "gpu"\nmemory = "{need} MiB"')
        (attempt,) = system.ended("evict")
        print(f"  {attempt['outcome']}, with {used_mib()} MiB used; the other process: {other.poll()}")
        assert attempt["outcome"] == "succeeded" and other.poll() is not None, attempt
    finally:
        other.kill()
        other.wait()


def limit(system):
    system.submit("neighbour", ["steady", "20"], 'device = "gpu"\nmemory = "2 GiB"')
    until("the neighbour runs", lambda: system.attempts("neighbour"))
    system.submit("eat", ["eat", "6144"], 'device = "cpu"\nmemory = "1 GiB"')
    attempt = system.ended("eat")[0]
    print(" ", attempt["outcome"], attempt["detail"])
    assert attempt["outcome"] == "host_oom", attempt
    (attempt,) = system.ended("neighbour")
    print("  the neighbour:", attempt["outcome"], attempt["result"])
    assert attempt["outcome"] == "succeeded" and system.parts[1].poll() is None


def tree(system):
    before = used_mib()
    system.submit("tree", ["tree", "1024"], 'device = "gpu"\nmemory = "16 GiB"')
    until("eight children hold memory", lambda: used_mib() >= before + 8 * 1024)
    ours = ["pgrep", "-f", f"{PROGRAMS.name} tree"]
    count = len(subprocess.run(ours, capture_output=True, text=True).stdout.split())
    print(f"  {count} processes, {used_mib() - before} MiB more on the card")
    assert count >= 8
    system.one("cancel", "tree")
    (attempt,) = system.ended("tree")
    left = subprocess.run(ours, capture_output=True, text=True).stdout.split()
    until("the memory came back", lambda: used_mib() <= before + 64, 20)
    print(f"  {attempt['outcome']}: {len(left)} processes left, {used_mib() - before} MiB more on the card")
    assert attempt["outcome"] == "cancelled" and not left, (attempt, left)


CHECKS = {"pin": pin, "foreign": foreign, "evict": evict, "tree": tree, "limit": limit}


def evicting():
    program = pathlib.Path(sys.executable).resolve().name
    command = json.dumps(["pkill", "-KILL", "-f", f"{PROGRAMS.name} hold"])
    return f'[[evict]]\nprograms = ["{program}"]\ncommand = {command}\n'


def check(sweep, names, more):
    """What is wrong."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        system = System(sweep, folder, more)
        try:
            for name in names:
                print(name)
                try:
                    CHECKS[name](system)
                except AssertionError as error:
                    wrong.append(f"{name}: {error}")
        finally:
            system.stop()
        if wrong:
            print((pathlib.Path(folder) / "agent.log").read_text(encoding="utf-8")[-4000:])
    return wrong


def main(sweep, wanted):
    wrong = []
    print("discovery: field, sweep, nvidia-smi")
    wrong += discovery.differences(sweep)
    if "limit" in wanted and os.geteuid() != 0:
        print("skipped: limit, as only root may set one here")
        wanted.remove("limit")
    # Those that change the host file have a system of their own.
    own = {"evict": evicting(), "limit": '[limits]\nmemory = "2 GiB"\n'}
    together = [name for name in wanted if name not in own]
    wrong += check(sweep, together, "") if together else []
    for name in wanted:
        if name in own:
            wrong += check(sweep, [name], own[name])
    print("\n".join(["all of it holds"] if not wrong else [f"WRONG {one}" for one in wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CHECKS)))
