"""train.py as a whole: it learns, its settings do what they say, it goes on exactly, it says what is wrong."""
import json
import signal
import sys
import tempfile
import time
import unittest
import warnings

from small import Job, make_model, write_data

import train
from training import checkpoints


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.folder = tempfile.TemporaryDirectory()
        cls.model, cls.data, cls.held_out = (f"{cls.folder.name}/{name}" for name in ("model", "train.jsonl", "held.jsonl"))
        make_model(cls.model)
        write_data(cls.data, 12)
        write_data(cls.held_out, 5)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def job(self, **settings):
        return Job(self.model, self.data, self.held_out, **settings)

    def trained(self, **settings):
        with self.job(**settings) as job:
            code, _, err = job.run(train)
            self.assertEqual(code, 0, err)
            return job.losses(), job.adapter(), job.result()

    def test_from_start_to_end(self):
        with self.job() as job:
            self.assertEqual(job.run(train)[0], 0)
            result, losses = job.result(), job.losses()
            self.assertEqual(len(losses), 8)
            self.assertLess(losses[-1], losses[0])
            self.assertEqual([one["step"] for one in result["checkpoints"]], [2, 4, 6, 8])
            self.assertEqual(result["held_out_loss"], result["checkpoints"][-1]["held_out_loss"])
            self.assertGreater(result["peak_resident_mib"], 0)
            kept = json.loads((job.checkpoints / "adapter" / "sweep.json").read_text())
            self.assertEqual((kept["seed"], kept["trial"], kept["train"]["examples"]), (7, "s/1", 12))
            # Only the newest two hold what a training goes on from; every adapter stays.
            going = [path.name for path in checkpoints.all_of(job.checkpoints) if (path / "optimizer.pt").exists()]
            self.assertEqual(going, ["checkpoint-6", "checkpoint-8"])
            self.assertTrue(all((path / "adapter_model.safetensors").exists() for path in checkpoints.all_of(job.checkpoints)))

    def test_equal_settings_give_equal_bits_and_every_switch_changes_them(self):
        plain = self.trained()
        self.assertEqual(self.trained()[:2], plain[:2])
        for change in ({"learning_rate": 2e-2}, {"lr_schedule": "cosine"}, {"warmup": 0.0}, {"weight_decay": 0.5},
                       {"lora_plus": 16.0}, {"neftune": 5.0}, {"class_balanced": True}, {"max_grad_norm": 1e-3},
                       {"dropout": 0.0}, {"rslora": True}, {"dora": True}, {"grad_accumulation": 2},
                       {"targets": ["q_proj", "lm_head"]}):
            with self.subTest(change=change):
                self.assertNotEqual(self.trained(**change)[1], plain[1])

    def test_memory_fixes_train_the_same(self):
        losses = self.trained(dropout=0.0)[0]
        for fixes in (["logits_to_keep"], ["chunked_loss"], ["chunked_mlp"], ["save_on_cpu"],
                      ["save_on_cpu_skips_weights", "cache_emptied_before_adapters"]):
            changed = self.trained(dropout=0.0, memory_fixes=fixes, mlp_chunk_tokens=4, loss_chunk_tokens=4)[0]
            for step, (one, other) in enumerate(zip(losses, changed)):
                self.assertAlmostEqual(one, other, 4, f"{fixes}, step {step}")

    def test_killed_at_any_moment_it_ends_as_if_it_had_never_stopped(self):
        losses, adapter, result = self.trained()
        with self.job() as job:
            for wanted in (1, 2):
                process = job.start("train.py")
                while process.poll() is None and len(checkpoints.all_of(job.checkpoints)) < wanted:
                    time.sleep(0.005)
                process.kill()
                process.communicate()
            # One that was cut off while it was written: newest by its name, and not whole.
            last = max([*map(checkpoints.step_of, checkpoints.all_of(job.checkpoints))])
            torn = job.checkpoints / "checkpoint-7"
            torn.mkdir(exist_ok=True)
            (torn / "adapter_model.safetensors").write_bytes(b"half")
            (torn / checkpoints.WHOLE).unlink(missing_ok=True)
            code, out, err = job.run(train)
            self.assertEqual(code, 0, err)
            self.assertIn("checkpoint-7 is not whole", err)
            self.assertIn("goes on from step", out)
            self.assertGreaterEqual(last, 2)
            self.assertEqual(job.adapter(), adapter)
            self.assertEqual(job.result()["held_out_loss"], result["held_out_loss"])
            self.assertEqual(job.losses()[-1], losses[-1])

    def test_asked_to_stop_it_saves_first(self):
        adapter = self.trained(steps=40)[1]
        with self.job(steps=40) as job:
            process = job.start("train.py")
            while process.poll() is None and not checkpoints.all_of(job.checkpoints):
                time.sleep(0.005)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
            self.assertIn(process.returncode, (0, 75), err)
            if process.returncode == 75:
                self.assertIn("with a checkpoint", out)
            self.assertEqual(job.run(train)[0], 0)
            self.assertEqual(job.adapter(), adapter)

    def test_finished_and_started_again_it_gives_the_same_result(self):
        with self.job() as job:
            job.run(train)
            first, adapter = job.result(), job.adapter()
            self.assertEqual(job.run(train)[0], 0)
            again = job.result()
            self.assertEqual((again["held_out_loss"], again["loss"]), (first["held_out_loss"], first["loss"]))
            self.assertEqual(job.adapter(), adapter)

    def test_a_loss_that_is_no_number_ends_it(self):
        with self.job(learning_rate=1e30, max_grad_norm=0, warmup=0.0) as job:
            code, out, err = job.run(train)
            self.assertEqual(code, 82, err)
            said = json.loads(out.strip().splitlines()[-1])
            self.assertEqual(said["error"], "diverged")
            self.assertIn("learning_rate", said["message"])

    def test_the_hosts_memory_is_guarded(self):
        with self.job(stage={"host_reserve_mib": 10**9}) as job:
            code, out, _ = job.run(train)
            self.assertEqual(code, 71)
            self.assertIn('"host_oom"', out)
            self.assertEqual([one.name for one in checkpoints.all_of(job.checkpoints)], ["checkpoint-1"])


if __name__ == "__main__":
    sys.exit(unittest.main())
