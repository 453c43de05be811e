"""No memory fix changes what training computes: the real step on the CPU, three optimizer steps, with a fix and without.

Where a fix only moves or repeats what is computed, losses and trained weights are the same bit for bit. Where it changes
the order of sums, losses are within a rounding of the type that is computed in. And each comparison is shown to be able
to fail: the same fix with a fault in it is told from none. On a card, and for the paged optimizer, this says nothing.
"""
import unittest
from unittest import mock

import torch

import real_step

#: Of the type that is computed in: fp32 rounds to 6e-8, bf16 to 4e-3, and a loss is a mean of many roundings.
#: CPUs differ in it: 2.006e-3 is the most that was seen, on one with bf16 instructions of its own.
ROUNDING = {"fp32": 2e-6, "bf16": 3e-3, "nf4": 3e-3}
#: The head's weight and input rounded to bf16 (4e-3 each) move each logit by so much, and losses with them.
BF16_HEAD = 1e-2
FAMILIES = ("llama", "gemma3_text", "qwen3")
PLAIN = {}


def trained(family, quant, *fixes, **given):
    """Without a fix it is run once for each family and type; computed under autocast where the type is half."""
    given = {"quant": quant, "autocast": quant != "fp32", **given}
    if fixes:
        return real_step.trained(family, memory_fixes=list(fixes), mlp_chunk_tokens=16, loss_chunk_tokens=4, **given)
    key = family, *sorted(given.items())
    if key not in PLAIN:
        PLAIN[key] = real_step.trained(family, **given)
    return PLAIN[key]


class Fixes(unittest.TestCase):
    def each(self, *quants):
        for family in FAMILIES:
            for quant in quants:
                with self.subTest(family=family, quant=quant):
                    yield family, quant

    def same(self, one, other):
        self.assertEqual(one.losses, other.losses)
        self.assertTrue(one.same_bits(other), "losses are the same, trained weights are not")

    def close(self, one, other, bound):
        self.assertLess(one.furthest(other), bound)

    def told(self, faulty, plain, bound=0.0):
        """A fault is seen: in a loss beyond the bound, or in a bit where no bound is needed."""
        self.assertTrue(faulty.furthest(plain) > bound or not bound and not faulty.same_bits(plain), faulty.losses)

    def test_the_same_settings_give_the_same_bits_and_training_trains(self):
        for family, quant in self.each("fp32", "bf16"):
            self.same(real_step.trained(family, quant=quant, autocast=quant != "fp32"), trained(family, quant))
            self.assertLess(trained(family, quant).losses[-1], 0.95 * trained(family, quant).losses[0])

    def test_chunked_mlp(self):
        """Pieces of 16 of 40 tokens: sums over tokens, in the gradients of adapters, are made in another order."""
        for family, quant in self.each("fp32", "bf16"):
            self.close(trained(family, quant, "chunked_mlp"), trained(family, quant), ROUNDING[quant])

            def last_dropped(forward, tokens, x):
                pieces = [forward(piece) for piece in x.split(tokens, dim=1)]
                return torch.cat([*pieces[:-1], torch.zeros_like(pieces[-1])], dim=1)

            with mock.patch("step.fixes._in_pieces", last_dropped):
                self.told(trained(family, quant, "chunked_mlp"), trained(family, quant), ROUNDING[quant])

    def test_save_on_cpu(self):
        for family, quant in self.each("fp32", "bf16"):
            offloaded = trained(family, quant, "save_on_cpu")
            self.assertGreater(offloaded.card.packed, 0)
            self.same(offloaded, trained(family, quant))
        self.told(trained("llama", "fp32", "save_on_cpu", card=Shaken()), trained("llama", "fp32"))

    def test_save_on_cpu_skips_weights(self):
        for family, quant in self.each("fp32", "bf16"):
            skips = trained(family, quant, "save_on_cpu", "save_on_cpu_skips_weights")
            self.assertLess(skips.card.packed, trained(family, quant, "save_on_cpu").card.packed)
            self.assertGreater(skips.card.packed, 0)
            self.same(skips, trained(family, quant))
        shaken = trained("llama", "fp32", "save_on_cpu", "save_on_cpu_skips_weights", card=Shaken())
        self.told(shaken, trained("llama", "fp32"))

    def test_cache_emptied_before_adapters(self):
        """On a CPU there is no cache: this shows that the fix asks for nothing else. Its effect on memory is a card's."""
        for family, quant in self.each("fp32", "nf4"):
            emptied, plain = trained(family, quant, "cache_emptied_before_adapters"), trained(family, quant)
            self.assertEqual(emptied.card.emptied, plain.card.emptied + 1)
            self.same(emptied, plain)

    def test_logits_to_keep(self):
        for family, quant in self.each("fp32", "bf16"):
            self.close(trained(family, quant, "logits_to_keep"), trained(family, quant), ROUNDING["fp32"])
        shifted = lambda inputs, length: inputs.ids[:, -length - 1:-1]
        with mock.patch("step.one_step.Inputs.response", shifted):
            self.told(trained("llama", "fp32", "logits_to_keep"), trained("llama", "fp32"), ROUNDING["fp32"])

    def test_chunked_loss(self):
        """Alone it goes over all tokens, of which those before the response count for nothing."""
        import step.loss as loss
        for family, quant in self.each("fp32", "bf16"):
            for fixes in (("chunked_loss",), ("chunked_loss", "logits_to_keep")):
                self.close(trained(family, quant, *fixes), trained(family, quant), ROUNDING["fp32"])
        with mock.patch.object(loss, "checkpoint", First(loss.checkpoint)):
            self.told(trained("llama", "fp32", "chunked_loss", "logits_to_keep"), trained("llama", "fp32"), ROUNDING["fp32"])

    def test_chunked_loss_caps_logits(self):
        """gemma 2 caps its logits in the model's own head, which the pieces go around."""
        plain = trained("gemma2", "fp32", attention="eager")
        self.close(trained("gemma2", "fp32", "chunked_loss", attention="eager"), plain, ROUNDING["fp32"])
        with mock.patch("torch.tanh", lambda x: x * 0.9):
            self.told(trained("gemma2", "fp32", "chunked_loss", attention="eager"), plain, ROUNDING["fp32"])

    def test_bf16_lm_head(self):
        """The one fix that computes in another type: after k-bit preparation head and embedding are fp32, with it bf16."""
        for family, quant in self.each("nf4"):
            half = trained(family, quant, "bf16_lm_head")
            self.close(half, trained(family, quant), BF16_HEAD)
            self.assertFalse(half.same_bits(trained(family, quant)), "the fix did nothing")
        for family, quant in self.each("bf16"):
            self.same(trained(family, quant, "bf16_lm_head"), trained(family, quant))
        with mock.patch("step.fixes.bf16_lm_head", lambda model, half: model.get_output_embeddings().weight.data.mul_(1.1)):
            self.told(trained("llama", "nf4", "bf16_lm_head"), trained("llama", "nf4"), BF16_HEAD)

    def test_logits_freed_before_backward(self):
        for family, quant in self.each("fp32", "bf16"):
            self.close(trained(family, quant, logits_freed_before_backward=False), trained(family, quant), ROUNDING["fp32"])
            kept = trained(family, quant, "logits_to_keep", logits_freed_before_backward=False)
            self.same(kept, trained(family, quant, "logits_to_keep"))

    def test_gradient_checkpointing(self):
        """With dropout, too: what is run again draws the same numbers."""
        for family, quant in self.each("fp32", "bf16"):
            plain = trained(family, quant, dropout=0.1)
            self.same(trained(family, quant, dropout=0.1, gradient_checkpointing=False), plain)
        with mock.patch("torch.set_rng_state", lambda state: None):
            self.told(real_step.trained("llama", dropout=0.1), trained("llama", "fp32", dropout=0.1))

    def test_all_at_once(self):
        fixes = ("chunked_mlp", "save_on_cpu", "save_on_cpu_skips_weights", "cache_emptied_before_adapters", "logits_to_keep",
                 "chunked_loss")
        for family, quant in self.each("fp32"):
            self.close(trained(family, quant, *fixes), trained(family, quant), ROUNDING[quant])

    @unittest.skipUnless(torch.cuda.is_available(), "paged optimizer state needs CUDA: not shown here")
    def test_paged_optimizer(self):
        for paged, plain in (("paged_adamw_8bit", "adamw_8bit"), ("paged_adamw_32bit", "adamw")):
            one, other = (trained("llama", "bf16", card=real_step.OnCuda(), optimizer=name) for name in (paged, plain))
            self.close(one, other, ROUNDING["bf16"])

    def test_no_fix_is_forgotten(self):
        from step import recipe
        names = {name.removeprefix("test_") for name in dir(self)}
        self.assertEqual([fix for fix in recipe.FIXES if fix not in names], [])


class Shaken(real_step.Cpu):
    """Gives back from the host other numbers than it took."""

    def back_from_host(self, packed):
        tensor = super().back_from_host(packed)
        return tensor * 1.01 if tensor.is_floating_point() else tensor


class First:
    """A checkpoint that forgets the first piece of each loss."""

    def __init__(self, checkpoint):
        self.checkpoint, self.calls = checkpoint, 0

    def __call__(self, *given, **ways):
        self.calls += 1
        return self.checkpoint(*given, **ways) * (0 if self.calls % 3 == 1 else 1)


if __name__ == "__main__":
    unittest.main()
