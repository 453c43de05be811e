"""Weights of a GGUF file, turned into plain ones once: the same numbers, the same tokens, and no harm where that cannot be."""
import os
import pathlib
import tempfile
import time
import unittest
from unittest import mock

import small   # noqa: F401  (sets the path and the device)
import torch
import transformers

from training import translated, weights

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
CHAT = [{"role": "user", "content": "turn the lamp in the attic off"}]


class TranslatedTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.cache = pathlib.Path(made.name) / "made"
        self.enterContext(mock.patch.dict(os.environ, SWEEP_CACHE_DIR=str(self.cache)))

    def test_the_plain_weights_are_those_of_the_file(self):
        file = weights.find(NAME)
        plain = file.plain(torch.float32)
        self.assertIsNone(plain.gguf)
        self.assertEqual(plain.path, file.path, "a result still names the file that the weights came from")
        with mock.patch.object(weights.Weights, "_translate") as again:
            self.assertEqual(file.plain(torch.float32), plain)
        again.assert_not_called()
        self.assertEqual(len(list(self.cache.iterdir())), 1, "nothing half-made is left")
        tokens = [one.tokenizer().apply_chat_template(CHAT, add_generation_prompt=True)["input_ids"] for one in (file, plain)]
        self.assertEqual(*tokens)
        first = transformers.AutoModelForCausalLM.from_pretrained(file.folder, gguf_file=file.gguf, dtype=torch.float32)
        then = transformers.AutoModelForCausalLM.from_pretrained(plain.folder, dtype=torch.float32)
        self.assertIsNone(getattr(then.config, "quantization_config", None))
        ids = torch.tensor([tokens[0]])
        with torch.no_grad():
            self.assertTrue(torch.equal(first(ids).logits, then(ids).logits))

    def test_without_a_place_the_file_itself_is_read(self):
        file = weights.find(NAME)
        self.cache.write_text("in the way", encoding="utf-8")
        with mock.patch.object(weights.Weights, "_translate") as translate:
            self.assertIs(file.plain(torch.float32), file)
            translate.assert_not_called()
            with mock.patch.dict(os.environ):
                del os.environ["SWEEP_CACHE_DIR"]
                self.assertIs(file.plain(torch.float32), file)
            with mock.patch.object(translated, "LARGEST", 1000):
                self.assertIs(file.plain(torch.float32), file)

    def test_each_precision_and_each_state_of_the_file_has_its_own(self):
        file = pathlib.Path(self.cache.parent) / "model.gguf"
        file.write_bytes(b"one")
        kept = {translated.folder(file, torch.float32), translated.folder(file, torch.bfloat16)}
        os.utime(file, (1, 1))
        kept.add(translated.folder(file, torch.float32))
        self.assertEqual(len(kept), 3)

    def test_a_killed_programs_half_is_no_weights_and_goes(self):
        kept = self.cache / "model-1"
        half = self.cache / "model-1.half"
        half.mkdir(parents=True)
        os.utime(half, (1, 1))
        young = self.cache / "model-1.young"
        young.mkdir()

        def make(into):
            (into / "config.json").write_text("{}", encoding="utf-8")
            # Another program was faster.
            if not kept.exists():
                kept.mkdir()
                (kept / "config.json").write_text("{}", encoding="utf-8")

        self.assertTrue(translated.made(kept, make))
        self.assertEqual({one.name for one in self.cache.iterdir()}, {"model-1", "model-1.young"})
        self.assertLess(young.stat().st_mtime - time.time(), 1)


if __name__ == "__main__":
    unittest.main()
