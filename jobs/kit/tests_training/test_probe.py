"""probe.py on a CPU: both modes, real weights and made-up ones, the whole observation."""
import pathlib
import sys
import tempfile
import unittest
import warnings

from small import Job, make_model, write_data

import probe

SHAPES = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64}


class Probe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.kept = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.kept.name)
        make_model(cls.folder / "model")
        write_data(cls.folder / "train.jsonl", 6)

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def probed(self, model, *arguments, stage=None, **settings):
        with Job(model, self.folder / "train.jsonl", "", stage, **settings) as job:
            code, out, err = job.run(probe, list(arguments))
            self.assertEqual(code, 0, out + err)
            memory = next(line["memory"] for line in job.report() if "memory" in line)
            steps = [line["metric"]["step_seconds"] for line in job.report() if "step_seconds" in line.get("metric", {})]
            return memory, job.result(), steps

    def test_the_trainer_on_the_longest_example(self):
        memory, result, steps = self.probed(self.folder / "model", "--data", str(self.folder / "train.jsonl"))
        self.assertEqual((memory["status"], memory["optimizer_steps"], memory["data"]), ("ok", 2, "longest"))
        self.assertEqual((memory["rank"], memory["batch"], memory["quant"], memory["weights"]), (4, 2, "fp32", "model"))
        self.assertEqual(len(steps), 2)
        self.assertEqual(result["step_seconds"], steps[-1])
        self.assertGreater(result["peak_resident_mib"], 50)
        for name in ("torch", "transformers", "peft", "allocator", "load_order", "os"):
            self.assertIn(name, memory)

    def test_without_weights_they_are_made_up_and_that_is_said(self):
        memory, _, _ = self.probed("nobody/nothing", model_config=SHAPES)
        self.assertEqual((memory["weights"], memory["data"], memory["seq_len"]), ("random", "made_up", 48))

    def test_one_step_has_no_optimizer(self):
        memory, _, steps = self.probed("nobody/nothing", stage={"step": "one-step"}, model_config=SHAPES)
        self.assertEqual((memory["optimizer_steps"], memory["autocast"], memory["probe_step"]), (0, False, "one-step"))
        self.assertFalse(memory["logits_freed_before_backward"])
        self.assertEqual(steps, [])

    def test_another_step_is_refused(self):
        with Job("nobody/nothing", "", "", {"step": "two-step"}, model_config=SHAPES) as job:
            code, out, err = job.run(probe, [])
        self.assertEqual(code, 64, out + err)
        self.assertIn("two-step", out + err)


if __name__ == "__main__":
    sys.exit(unittest.main())
