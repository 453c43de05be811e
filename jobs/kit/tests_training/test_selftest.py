"""selftest.py with the packages there, on a CPU."""
import contextlib
import io
import json
import sys
import unittest
from unittest import mock

import small   # noqa: the device is the CPU
import selftest


def tested(*arguments):
    out = io.StringIO()
    with mock.patch.object(sys, "argv", ["selftest.py", *arguments]), contextlib.redirect_stdout(out):
        code = selftest.main()
    said = json.loads(out.getvalue())
    return code, said, {one["name"]: one for one in said["checks"]}


class SelfTest(unittest.TestCase):
    def test_on_a_cpu_every_check_passes(self):
        code, said, checks = tested("--stack", "cpu")
        self.assertEqual((code, said["status"]), (0, "ok"), said)
        self.assertEqual([name for name, one in checks.items() if not one["ok"]], [])
        self.assertGreater(checks["step"]["loss"], 0)

    def test_a_card_that_is_not_there(self):
        code, said, checks = tested("--stack", "cuda")
        self.assertEqual((code, said["status"], checks["device"]["ok"]), (72, "failed", False))
        self.assertNotIn("step", checks)

    def test_a_library_that_computes_wrongly_is_broken(self):
        with mock.patch("torch.randn", side_effect=RuntimeError("no kernel for this")):
            code, _, checks = tested()
        self.assertEqual((code, checks["kernel"]["message"]), (70, "no kernel for this"))

    def test_without_nf4_the_rest_is_still_good(self):
        with mock.patch("bitsandbytes.functional.quantize_4bit", side_effect=RuntimeError("no backend")):
            code, said, checks = tested()
        self.assertEqual((code, said["status"], checks["nf4"]["ok"]), (0, "ok", False))


if __name__ == "__main__":
    unittest.main()
