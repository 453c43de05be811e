"""digits.py as a whole program: it learns, it goes on exactly where it was, it says what is wrong."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from job import Job


class Digits(unittest.TestCase):
    def test_a_trial_from_probe_to_bake(self):
        with Job() as job:
            for kind in ("probe", "train", "bake"):
                code, _, err = job.run(kind)
                self.assertEqual((code, err), (0, ""), kind)
            self.assertEqual(job.result("probe")["peak_resident_mib"], job.report("probe")[-2]["memory"]["peak_resident_mib"])
            losses = [line["metric"]["loss"] for line in job.report("train") if "metric" in line]
            self.assertLess(losses[-1], losses[0] / 2)
            self.assertEqual([line["progress"] for line in job.report("train") if "progress" in line][-1], 1.0)
            baked = job.result("bake")
            self.assertEqual(len(baked["passes"]), 2)
            self.assertGreater(baked["held_out"], 0.3)
            self.assertGreater(baked["train"], baked["held_out"])
            with open(job.path("cases-1.jsonl"), encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 2 * baked["cases"])

    def test_equal_settings_give_equal_bits(self):
        with Job() as one, Job() as other, Job(l2=0.002) as changed:
            for job in (one, other, changed):
                self.assertEqual(job.run("train")[0], 0)
            self.assertEqual(one.model(), other.model())
            self.assertNotEqual(one.model(), changed.model())

    def test_killed_at_any_moment_it_ends_as_if_it_had_never_stopped(self):
        with Job() as whole, Job() as broken:
            self.assertEqual(whole.run("train")[0], 0)
            kills = 0
            for checkpoints in (1, 2, 2):
                process = broken.start("train")
                before = broken.checkpoints()
                while process.poll() is None and (
                    broken.checkpoints() == before or len(broken.checkpoints()) < checkpoints
                ):
                    time.sleep(0.002)
                kills += process.poll() is None
                process.kill()
                process.communicate()
            self.assertGreater(kills, 0)
            left = process.returncode != 0 and broken.checkpoints()
            code, out, _ = broken.run("train")
            self.assertEqual(code, 0)
            if left:   # on a busy machine the last one may have done all its work before it was killed
                self.assertIn("goes on from step", out)
            self.assertEqual(broken.model(), whole.model())
            for name in ("loss", "held_out_loss"):
                self.assertEqual(broken.result("train")[name], whole.result("train")[name])

    def test_asked_to_stop_it_saves_first(self):
        with Job() as whole, Job() as stopped:
            self.assertEqual(whole.run("train")[0], 0)
            process = stopped.start("train")
            while not stopped.checkpoints():
                time.sleep(0.002)
            process.terminate()
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75)
            self.assertIn("with a checkpoint", out)
            last = stopped.report("train")[-1]
            self.assertTrue(os.path.exists(last["checkpoint"]))
            self.assertEqual(stopped.run("train")[0], 0)
            self.assertEqual(stopped.model(), whole.model())

    def test_a_damaged_checkpoint_is_passed_over(self):
        with Job() as job:
            self.assertEqual(job.run("train")[0], 0)
            good = job.model()
            older, newest = job.checkpoints()
            with open(job.path("checkpoints", newest), "r+b") as file:
                file.truncate(100)
            code, out, err = job.run("train")
            self.assertEqual(code, 0)
            self.assertIn(newest, err)
            self.assertIn(f"goes on from step {int(older[5:13])} ", out)
            self.assertEqual(job.model(), good)

    def test_a_finished_training_started_again_gives_its_result_at_once(self):
        with Job() as job:
            job.run("train")
            first = job.result("train")
            self.assertEqual(job.run("train")[0], 0)
            self.assertEqual(job.result("train"), first)

    def test_mistakes_end_with_codes_that_are_not_tried_again(self):
        with Job(hidden="many") as wrong, Job() as untrained, Job(learning_rate=1e9) as wild:
            code, _, err = wrong.run("train")
            self.assertEqual(code, 78)
            self.assertIn("many", err)
            code, _, err = untrained.run("bake")
            self.assertEqual(code, 66)
            self.assertIn("no trained model", err)
            code, _, err = wild.run("train")
            self.assertEqual(code, 65)
            self.assertIn("smaller learning_rate", err)
            code, _, err = untrained.run("fly")
            self.assertEqual(code, 64)


if __name__ == "__main__":
    unittest.main()
