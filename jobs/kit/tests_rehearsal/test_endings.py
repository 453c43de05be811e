"""Every way that a rehearsal can end badly: one line that says what and what to do, its exit code, nothing half-kept.

Each is a process of its own, as an agent starts it. Says nothing about streams.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import live_sets
import small

#: A model whose step takes long enough to be met in the middle.
LONG = small.settings("llama", {"num_hidden_layers": 400})
LINUX = sys.platform == "linux"
IGNORED = re.compile(r"Exception ignored in:.*\nTraceback.*\n(  .*\n)*MemoryError: *\n?")


def started(command, **more):
    """With SIGINT as a terminal gives it: what runs in the background of a script would pass on that it is ignored."""
    limit = more.pop("preexec_fn", lambda: None)
    as_usual = (lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), limit())) if LINUX else None
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=as_usual, **more)


class Endings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def begun(self, settings, *words, **more):
        file = self.folder / "settings.json"
        file.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")
        command = [sys.executable, "-W", "ignore", str(live_sets.KIT / "rehearse.py"), str(file),
                   "--out", str(self.folder / "stream.gz"), *words]
        return started(command, **more)

    def ended(self, child, code, *words):
        out, complained = child.communicate(timeout=120)
        self.assertEqual(child.returncode, code, out[:600] + complained[-600:])
        said = json.loads(out)
        for word in words:
            self.assertIn(word, said["message"])
        self.assertLess(len(out), 600, "one line for a person to read")
        # Without memory the interpreter may not even end its generators, and says so itself.
        complained = IGNORED.sub("", complained)
        self.assertFalse("Traceback" in complained, complained[:600])
        self.nothing_kept()
        return said

    def nothing_kept(self):
        kept = [path.name for path in self.folder.iterdir() if path.name.startswith("stream")]
        self.assertEqual(kept, [])

    def at(self, child, wanted):
        """Until it has had so many seconds of processor time: its imports take 7, the whole a minute or more."""
        until = time.monotonic() + 120
        while time.monotonic() < until and child.poll() is None:
            stat = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
            if (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") > wanted:
                return
            time.sleep(0.1)
        self.fail("it ended before it could be met")

    def test_an_unknown_architecture(self):
        child = self.begun({**small.settings(), "model_config": {"model_type": "nonesuch", "hidden_size": 64}})
        self.ended(child, 64, "knows no model_type `nonesuch`")

    def test_a_folder_without_a_config(self):
        settings = {**small.settings(), "model": str(self.folder)}
        del settings["model_config"]
        self.ended(self.begun(settings), 64, "has no config.json", str(self.folder))

    def test_a_config_that_is_none(self):
        (self.folder / "config.json").write_text('{"model_type": "llama", ', encoding="utf-8")
        settings = {**small.settings(), "model": str(self.folder)}
        del settings["model_config"]
        self.ended(self.begun(settings), 64, "no usable config.json", "model_config")

    def test_a_setting_that_the_kit_does_not_know(self):
        self.ended(self.begun({**small.settings(), "rnk": 8}), 64, "rnk: unknown setting; did you mean `rank`?")

    def test_settings_that_are_no_json(self):
        self.ended(self.begun('{"rank": '), 64)

    @unittest.skipUnless(LINUX, "address space is limited on Linux")
    def test_out_of_host_memory(self):
        import resource
        # The imports' own 4.5 GiB of address space and little more.
        limit = _address_space() + (64 << 20)
        child = self.begun(LONG, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.ended(child, 71, "host memory", "give the rehearsal more")

    @unittest.skipUnless(LINUX, "processes are looked at in /proc")
    def test_interrupted_by_hand(self):
        # While its libraries load, while the model is built, in the backward pass, which has threads of its own.
        for seconds in 1, 14, 30:
            with self.subTest(seconds=seconds):
                child = self.begun(LONG)
                self.at(child, seconds)
                child.send_signal(signal.SIGINT)
                said = self.ended(child, 130, "nothing was kept")
                self.assertEqual(said["error"], "interrupted")

    @unittest.skipUnless(LINUX, "processes are looked at in /proc")
    def test_a_table_interrupted_or_killed_leaves_no_process(self):
        table = self.folder / "rows.jsonl"
        table.write_text(json.dumps(LONG) + "\n", encoding="utf-8")
        kept = self.folder / "streams"
        command = [sys.executable, "-W", "ignore", str(live_sets.KIT / "rehearse.py"), "--rows", str(table),
                   "--out-dir", str(kept)]
        for signalled, code in (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL):
            with self.subTest(signalled=signalled):
                parent = started(command)
                child = self.child_of(parent)
                parent.send_signal(signalled)
                out, complained = parent.communicate(timeout=60)
                self.assertEqual(parent.returncode, code, complained[-600:])
                self.assertFalse("Traceback" in complained, complained[:600])
                self.assertEqual(json.loads(out)["error"] if out else "", "interrupted" if code == 130 else "")
                self.gone(child)
                self.assertEqual(list(kept.iterdir()), [])

    def child_of(self, parent):
        until = time.monotonic() + 120
        while time.monotonic() < until and parent.poll() is None:
            children = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            if children:
                time.sleep(2)   # into its rehearsal
                return int(children[0])
            time.sleep(0.1)
        self.fail("it has begun no rehearsal")

    def gone(self, pid):
        until = time.monotonic() + 20
        while pathlib.Path(f"/proc/{pid}/stat").exists():
            if time.monotonic() > until:
                self.fail("the rehearsal goes on by itself")
            time.sleep(0.1)

    @unittest.skipUnless(LINUX, "processes are looked at in /proc")
    def test_killed_in_the_middle(self):
        child = self.begun(LONG)
        self.at(child, 14)
        child.kill()
        child.communicate(timeout=60)
        self.nothing_kept()


def _address_space():
    """What a rehearsal's process has mapped once its libraries are loaded."""
    look = ("import sys; sys.path.insert(0, sys.argv[1]); import rehearse, bitsandbytes; "
            "print([l for l in open('/proc/self/status') if l.startswith('VmPeak')][0].split()[1])")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", look, str(live_sets.KIT)], check=True,
                          capture_output=True, text=True)
    return int(done.stdout) * 1024


if __name__ == "__main__":
    unittest.main()
