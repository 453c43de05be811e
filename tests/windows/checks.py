"""Runs the one binary for Windows under Wine against a coordinator on this machine: jobs, cancels, kills of agents and
shepherds, the service. Each check does the harm and looks at what is left, by the processes of this machine. Started by
`tests/windows/run`. What Wine does not have is not checked here: docs/windows.md has the list."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import lab
from lab import EXE, WORKER, Room, processes, until, windows, wine


class Jobs(unittest.TestCase):
    """An agent that somebody started by hand."""

    @classmethod
    def setUpClass(cls):
        cls.room = Room()
        cls.addClassCleanup(cls.room.close)
        cls.room.open()
        cls.room.host_file('pass_env = ["SWEEP_*"]')
        cls.room.start_agent()

    def one(self, words, **more):
        """The ending of a sweep's only attempt, and the sweep."""
        sweep = self.room.submit(words, **more)
        ended = self.room.ended(sweep)
        self.assertEqual(len(ended), 1, ended)
        return ended[0], sweep

    def test_all_of_a_sweep_succeed_and_their_logs_are_here(self):
        sweep = self.room.submit(["lines", "{n}", "1"], axes="n = [3, 10, 400]")
        ended = self.room.ended(sweep, jobs=3)
        self.assertEqual([one["outcome"] for one in ended], ["succeeded"] * 3, ended)
        for trial, lines in enumerate([3, 10, 400], 1):
            wanted = "".join(f"line {n}\n" for n in range(1, lines + 1))
            self.assertEqual(self.room.log(f"{sweep}/{trial}/train"), wanted)
        # Of a program on a CPU the peak that counts is what it had resident.
        self.assertTrue(all((one["peak_allocated_mib"] or 0) > 0.5 for one in ended), ended)

    def test_an_exit_is_told_as_it_was(self):
        ended, _ = self.one(["exit", "3"])
        self.assertEqual((ended["outcome"], ended["exit"]), ("failed", 3), ended)
        ended, _ = self.one(["exit", "75"])
        self.assertEqual(ended["outcome"], "interrupted", ended)
        ended, _ = self.one(["crash"])
        self.assertEqual(ended["outcome"], "failed", ended)
        self.assertIn("0xC0000005", ended["detail"])

    def test_a_program_that_is_not_there_is_told(self):
        ended, _ = self.one([], program="no-such-program")
        self.assertEqual(ended["outcome"], "failed", ended)
        self.assertIn("does not exist on this host", ended["detail"])

    def test_a_program_that_travels_with_its_sweep_runs(self):
        shutil.copy(WORKER, self.room.path("travels.exe"))
        ended, sweep = self.one(["lines", "2", "1"], program="{file:travels.exe}")
        self.assertEqual(ended["outcome"], "succeeded", ended)
        self.assertEqual(self.room.log(f"{sweep}/1/train"), "line 1\nline 2\n")

    def test_a_program_gets_its_variables_and_no_token(self):
        _, sweep = self.one(["env"])
        names = [name.upper() for name in self.room.log(f"{sweep}/1/train").split()]
        for needed in ["PATH", "SYSTEMROOT", "TEMP", "SWEEP_REPORT", "SWEEP_CONFIG", "HIP_VISIBLE_DEVICES"]:
            self.assertIn(needed, names)
        self.assertFalse([name for name in names if "TOKEN" in name], names)

    def test_who_can_save_is_asked_first(self):
        sweep = self.room.submit(["gentle"])
        job = f"{sweep}/1/train"
        self.room.wait_for_log(job, "ready")
        self.room.sweep("cancel", job)
        ended = self.room.ended(sweep)[0]
        self.assertEqual(ended["outcome"], "cancelled", ended)
        # Windows' own end. Wine 8 delivers no Ctrl-Break: there the grace passes, and the kill comes.
        self.assertIn((ended["exit"], self.room.log(job)), [(75, "ready\nsaved\n"), (137, "ready\n")])

    def test_a_cancelled_tree_is_gone(self):
        mark = f"tree-{time.monotonic_ns()}"
        sweep = self.room.submit(["tree", "3", mark])
        # 1 and 3, 3 x 2, 6 x 1.
        until("the tree stands", lambda: len(processes("worker.exe", mark)) == 16)
        self.room.sweep("cancel", f"{sweep}/1/train")
        ended = self.room.ended(sweep)[0]
        self.assertEqual(ended["outcome"], "cancelled", ended)
        self.assertIn("killed", ended["detail"])
        self.assertEqual(processes("worker.exe", mark), [])

    def test_a_time_limit_ends_it(self):
        mark = f"limit-{time.monotonic_ns()}"
        ended, _ = self.one(["deaf", mark], more='time_limit = "2s"')
        self.assertEqual(ended["outcome"], "timed_out", ended)
        self.assertEqual(processes("worker.exe", mark), [])

    def test_what_a_program_leaves_is_ended(self):
        mark = f"left-{time.monotonic_ns()}"
        ended, _ = self.one(["left", mark])
        self.assertEqual((ended["outcome"], ended["exit"]), ("succeeded", 0), ended)
        self.assertIn("1 process that it left running was ended", ended["detail"])
        self.assertEqual(processes("worker.exe", mark), [])

    def test_without_its_shepherd_everything_goes(self):
        mark = f"lost-{time.monotonic_ns()}"
        sweep = self.room.submit(["tree", "2", mark])
        until("the tree stands", lambda: len(processes("worker.exe", mark)) == 5)
        # Its folder ends with the attempt's name on Windows.
        (shepherd,) = processes("sweep.exe", "shepherd", sweep)
        os.kill(shepherd, signal.SIGKILL)
        ended = self.room.ended(sweep)[0]
        self.assertEqual(ended["outcome"], "interrupted", ended)
        self.assertIn("its shepherd was killed", ended["detail"])
        until("all of it is gone", lambda: not processes("worker.exe", mark), 20)

    def test_an_attempt_outlives_its_agent(self):
        sweep = self.room.submit(["lines", "120", "100"])
        job = f"{sweep}/1/train"
        self.room.wait_for_log(job, "line 5\n")
        self.room.kill_agent()
        before = processes("worker.exe", "lines", "120")
        self.assertEqual(len(before), 1)
        time.sleep(2)
        self.room.start_agent()
        self.assertEqual(processes("worker.exe", "lines", "120"), before, "the same process goes on")
        ended = self.room.ended(sweep)
        self.assertEqual([one["outcome"] for one in ended], ["succeeded"], ended)
        self.assertEqual(self.room.log(job), "".join(f"line {n}\n" for n in range(1, 121)))

    def test_an_attempt_that_ends_without_an_agent_is_told_by_the_next(self):
        sweep = self.room.submit(["lines", "30", "100"])
        self.room.wait_for_log(f"{sweep}/1/train", "line 2\n")
        self.room.kill_agent()
        ending = os.path.join(self.room.folder_of(sweep), "ending.json")
        until("it ends without an agent", lambda: os.path.exists(ending))
        self.room.start_agent()
        ended = self.room.ended(sweep)
        self.assertEqual([one["outcome"] for one in ended], ["succeeded"], ended)

    def test_the_doctor_looks_and_changes_nothing(self):
        config = windows(self.room.path("agent.toml"))
        code, out, error = wine(EXE, "--data", windows(self.room.path("nowhere")), "agent", "doctor", "--config", config, "--json", check=False)
        checks = {one["name"]: one["state"] for one in json.loads(out)["checks"]}
        self.assertEqual((checks["folder"], checks["disk"], code), ("ok", checks["disk"], 1), out + error)
        # There is no Python under Wine, which is what it has to say.
        self.assertEqual(checks["cpu python"], "failed", out)
        self.assertFalse(os.path.exists(self.room.path("nowhere")))


class Service(unittest.TestCase):
    """The agent as a Windows service, from its installation to its end. Wine restarts no service that crashed, and ends
    all services with its last ordinary program, so one is kept."""

    @classmethod
    def setUpClass(cls):
        cls.room = Room()
        cls.addClassCleanup(cls.room.close)
        cls.room.open()
        keeper = subprocess.Popen(["wine64", WORKER, "deaf", "keeper"], env=lab.environment())
        cls.addClassCleanup(keeper.wait)
        cls.addClassCleanup(keeper.kill)
        cls.home = os.path.join(os.environ["WINEPREFIX"], "drive_c", "ProgramData", "sweep")
        shutil.rmtree(cls.home, ignore_errors=True)
        os.makedirs(cls.home)
        cls.room.host_file()
        shutil.copy(cls.room.path("agent.toml"), cls.home)
        cls.addClassCleanup(wine, EXE, "agent", "uninstall", check=False)

    def state(self):
        _, out, _ = wine("sc", "query", "sweep-agent", check=False)
        found = re.search(r"STATE\s+: \d+\s+(\w+)", out)
        return found[1] if found else None

    def install(self):
        token = ["--token", self.room.token]
        wine(EXE, "--coordinator", self.room.url, "agent", "install", *token)

    def said(self):
        logs = os.path.join(self.home, "data", "logs")
        text = ""
        for name in sorted(os.listdir(logs)):
            with open(os.path.join(logs, name), encoding="utf-8") as file:
                text += file.read()
        return text

    def test_from_installation_to_removal_with_an_attempt_that_runs(self):
        self.assertIsNone(self.state())
        self.install()
        self.assertEqual(self.state(), "RUNNING")
        until("the host is taken in", self.room.is_heard)
        _, config, _ = wine("reg", "query", r"HKLM\System\CurrentControlSet\Services\sweep-agent")
        self.assertIn(r'"C:\Program Files\sweep\sweep.exe" --data C:\ProgramData\sweep\data agent run --under service', config)
        self.assertRegex(config, r"ObjectName\s+REG_SZ\s+NT SERVICE\\sweep-agent")
        self.assertRegex(config, r"Start\s+REG_DWORD\s+0x2")

        _, source, _ = wine("reg", "query", r"HKLM\System\CurrentControlSet\Services\EventLog\Application\sweep-agent")
        self.assertIn("EventCreate.exe", source)
        self.assertNotIn("event log could not be written", self.said())

        sweep = self.room.submit(["lines", "200", "100"])
        job = f"{sweep}/1/train"
        self.room.wait_for_log(job, "line 3\n")
        (before,) = processes("worker.exe", "lines", "200")
        wine("sc", "stop", "sweep-agent")
        until("it has stopped", lambda: self.state() == "STOPPED")
        self.assertEqual(processes("agent", "run", "--under"), [], "its process has ended")
        self.assertEqual(processes("worker.exe", "lines", "200"), [before], "its attempt goes on")
        wine("sc", "start", "sweep-agent")
        until("it runs", lambda: self.state() == "RUNNING")
        # An upgrade in place: the program is replaced while the service and the attempt's shepherd run it.
        self.install()
        self.assertEqual(self.state(), "RUNNING")
        self.assertEqual(processes("worker.exe", "lines", "200"), [before], "its attempt goes on")
        ended = self.room.ended(sweep)
        self.assertEqual([one["outcome"] for one in ended], ["succeeded"], ended)
        self.assertEqual(self.room.log(job), "".join(f"line {n}\n" for n in range(1, 201)))
        self.assertIn("taken up again", self.said())
        self.assertNotIn(self.room.token, self.said())

        wine(EXE, "agent", "uninstall")
        self.assertIsNone(self.state())
        self.assertTrue(os.path.exists(os.path.join(self.home, "agent.toml")))
        self.assertTrue(os.path.exists(os.path.join(self.home, "data", "agents", self.room.host)))
        # Nothing to take away is nothing to complain of.
        wine(EXE, "agent", "uninstall")

    def test_what_cannot_be_is_refused_before_anything_is_done(self):
        for words in [
            ["--user", "ann"],
            ["--root", "x"],
            ["--token", "x"],
        ]:
            code, out, error = wine(EXE, "--coordinator", self.room.url, "agent", "install", *words, check=False)
            self.assertEqual(code, 2, out + error)
        code, _, error = wine(EXE, "coordinator", "install", check=False)
        self.assertEqual(code, 4, error)
        code, _, error = wine(EXE, "agent", "run", "--config", "x", "--under", "service", check=False)
        self.assertEqual(code, 4, error)
        self.assertIn("which Windows starts", error)

    def test_the_doctor_looks_from_the_session_of_services(self):
        config = windows(self.room.path("agent.toml"))
        words = ["--data", windows(self.room.path("doctor data")), "agent", "doctor", "--in-service", "--config", config]
        code, out, error = wine(EXE, *words, "--json", check=False)
        self.assertEqual(code, 1, out + error)
        checks = {one["name"]: one["state"] for one in json.loads(out)["checks"]}
        self.assertEqual((checks["folder"], checks["cpu python"]), ("ok", "failed"), out)
        _, left, _ = wine("sc", "query", "sweep-doctor", check=False)
        self.assertNotIn("STATE", left)

    def test_a_task_at_logon_is_shown(self):
        words = ["--coordinator", self.room.url, "agent", "install", "--mode", "logon-task", "--dry-run"]
        _, out, _ = wine(EXE, *words)
        for step in ["remove the service sweep-agent, if there is one", "schtasks /Create /TN sweep-agent /XML"]:
            self.assertIn(step, out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
