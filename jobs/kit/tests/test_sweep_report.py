"""The lines of a report: whole, one for each call, JSON that every reader accepts."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

KIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, KIT)

import sweep_report


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "report.jsonl")
        patch = mock.patch.dict(os.environ, {"SWEEP_REPORT": self.path})
        patch.start()
        self.addCleanup(patch.stop)

    def lines(self):
        with open(self.path, encoding="utf-8") as file:
            return [json.loads(line, parse_constant=self.fail) for line in file]

    def test_each_call_is_one_line(self):
        sweep_report.metric(25, loss=0.4)
        sweep_report.memory(peak_allocated_mib=6634.0)
        sweep_report.checkpoint("/c/step-25", 25)
        sweep_report.progress(1.5)
        sweep_report.result({"held_out": 0.9, "text": "two\nlines"})
        self.assertEqual(
            self.lines(),
            [
                {"metric": {"loss": 0.4}, "step": 25},
                {"memory": {"peak_allocated_mib": 6634.0}},
                {"checkpoint": os.path.abspath("/c/step-25"), "step": 25},
                {"progress": 1.0},
                {"result": {"held_out": 0.9, "text": "two\nlines"}},
            ],
        )

    def test_what_json_lacks_becomes_null(self):
        sweep_report.metric(1, loss=float("nan"), deep=[float("inf"), (1.0,)])
        self.assertEqual(self.lines(), [{"metric": {"loss": None, "deep": [None, [1.0]]}, "step": 1}])

    def test_processes_that_append_together_keep_their_lines_whole(self):
        code = "import sweep_report\nfor n in range(300): sweep_report.metric(n, text='x' * 300)"
        environment = {**os.environ, "PYTHONPATH": KIT, "PYTHONDONTWRITEBYTECODE": "1"}
        writers = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
        for writer in writers:
            self.assertEqual(writer.wait(timeout=60), 0)
        self.assertEqual(len(self.lines()), 900)

    def test_without_a_report_the_lines_are_printed(self):
        del os.environ["SWEEP_REPORT"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            sweep_report.progress(0.5)
        self.assertEqual(json.loads(out.getvalue()), {"progress": 0.5})

    def test_a_configuration_that_cannot_be_read_is_said_so(self):
        for path, said in (("", "not set"), (self.path, "cannot read")):
            err = io.StringIO()
            with mock.patch.dict(os.environ, {"SWEEP_CONFIG": path}), contextlib.redirect_stderr(err):
                with self.assertRaises(SystemExit) as ended:
                    sweep_report.config()
            self.assertEqual(ended.exception.code, 78)
            self.assertIn(said, err.getvalue())

    def test_the_peak_is_measured(self):
        peak = sweep_report.peak_resident_mib()
        if peak is not None:
            self.assertTrue(2 < peak < 4096, peak)


if __name__ == "__main__":
    unittest.main()
