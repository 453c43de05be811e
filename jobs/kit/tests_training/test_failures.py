"""Every way in which the GPU programs fail: one line of JSON, a sentence, an exit code of its own, nothing half done."""
import json
import pathlib
import tempfile
import unittest
import warnings

from small import Job, make_model, write_data

import failures
import probe
import train

TORCH = ("CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 7.65 GiB of which 1.12 GiB is free. "
         "Including non-PyTorch memory, this process has 6.42 GiB memory in use. Of the allocated memory 5.91 GiB is "
         "allocated by PyTorch, and 350.50 MiB is reserved by PyTorch but unallocated.")


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.kept = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.kept.name)
        make_model(cls.folder / "model")
        write_data(cls.folder / "train.jsonl", 6)
        write_data(cls.folder / "held.jsonl", 2)

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def ends(self, program, code, name, words, data=None, **settings):
        model = settings.pop("model", self.folder / "model")
        with Job(model, data or self.folder / "train.jsonl", self.folder / "held.jsonl", **settings) as job:
            arguments = job.arguments[:2] if program is probe else None
            got, out, err = job.run(program, arguments)
            self.assertEqual(got, code, out + err)
            said = json.loads(out.strip().splitlines()[-1])
            self.assertEqual(said["error"], name)
            for word in words:
                self.assertIn(word, said["message"])
            self.assertIn(said["message"].splitlines()[0], err)
            self.assertFalse(any("result" in line for line in job.report()) if (job.folder / "report.jsonl").exists() else False)

    def test_what_is_not_there(self):
        self.ends(train, 66, "missing_weights", ["nobody/nothing", "[models]"], model="nobody/nothing",
                  model_config={"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64,
                                "num_attention_heads": 4, "vocab_size": 50})
        self.ends(train, 66, "missing_weights", ["nobody/nothing"], model="nobody/nothing")
        self.ends(train, 66, "missing_file", ["/nowhere.jsonl"], data="/nowhere.jsonl")

    def test_a_card_that_is_not_there(self):
        for program in (train, probe):
            self.ends(program, 72, "no_gpu", ["nf4"], quant="nf4")

    def test_settings(self):
        self.ends(train, 64, "bad_recipe", ["rnak", "rank"], rnak=4)
        self.ends(train, 64, "bad_recipe", ["packing"], packing=True)
        self.ends(train, 64, "bad_recipe", ["save_every", "whole number"], save_every="often")
        self.ends(train, 64, "bad_recipe", ["wq_proj"], targets=["wq_proj"])
        self.ends(train, 64, "bad_recipe", ["lr_schedule", "cosine"], lr_schedule="bogus")

    def test_arguments_and_configurations(self):
        with Job(self.folder / "model", self.folder / "train.jsonl", self.folder / "held.jsonl") as job:
            for program in (train, probe):
                code, out, _ = job.run(program, ["--bogus"])
                self.assertEqual((code, json.loads(out.strip().splitlines()[-1])["error"]), (64, "usage"))
            for content in ("{", "[]"):
                (job.folder / "config.json").write_text(content)
                process = job.start("train.py")
                out, err = process.communicate(timeout=120)
                self.assertEqual((process.returncode, json.loads(out.strip().splitlines()[-1])["error"]), (78, "bad_config"), err)

    def test_data(self):
        bad = self.folder / "bad.jsonl"
        bad.write_text('{"prompt": "turn the light", "response": "a"}\nno\n')
        self.ends(train, 65, "bad_data", [f"{bad}:2"], data=bad)
        self.ends(train, 65, "bad_data", ["train.jsonl:1", "seq_len"], seq_len=9)
        bad.write_text('{"prompt": "turn the light", "response": "a"}\n')
        self.ends(train, 65, "bad_data", ["class_balanced"], data=bad, class_balanced=True)
        bad.write_text('{"prompt": "turn the light", "response": "a", "class": ["a"]}\n')
        self.ends(train, 65, "bad_data", [f"{bad}:1", "class"], data=bad, class_balanced=True)

    def test_only_a_line_feed_ends_a_line(self):
        data = self.folder / "separators.jsonl"
        lines = [{"prompt": f"turn{mark}the light", "response": "a"} for mark in ("\u2028", "\u2029", "\x85")]
        data.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        with Job(self.folder / "model", data, data) as job:
            code, out, err = job.run(train)
            self.assertEqual(code, 0, out + err)

    def test_a_missing_package(self):
        (self.folder / "without").mkdir(exist_ok=True)
        (self.folder / "without" / "peft.py").write_text("raise ModuleNotFoundError(\"No module named 'peft'\", name='peft')")
        with Job(self.folder / "model", self.folder / "train.jsonl", self.folder / "held.jsonl") as job:
            process = job.start("train.py", PYTHONPATH=str(self.folder / "without"))
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 69, err)
            self.assertEqual(json.loads(out.strip().splitlines()[-1])["package"], "peft")

    def test_the_frameworks_texts(self):
        for text, name, code in (
                (TORCH, "gpu_oom", 80), (TORCH.replace("CUDA", "HIP"), "gpu_oom", 80),
                ("CUDA error: out of memory", "gpu_oom", 80),
                ("CUDA error: an illegal memory access was encountered", "gpu_fault", 81),
                ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus", "gpu_fault", 81),
                ("No CUDA GPUs are available", "no_gpu", 72),
                ("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes", "host_oom", 71)):
            self.assertEqual(failures.told(RuntimeError(text))[:2], (name, code), text)
        self.assertEqual(failures.told(MemoryError())[:2], ("host_oom", 71))
        self.assertIsNone(failures.told(RuntimeError("CUDA error: device-side assert triggered")))
        self.assertEqual(failures.numbers(TORCH), {"wanted_mib": 1280.0, "capacity_mib": 7833.6, "free_mib": 1146.88,
                                                   "allocated_mib": 6051.84, "unallocated_mib": 350.5})


if __name__ == "__main__":
    unittest.main()
