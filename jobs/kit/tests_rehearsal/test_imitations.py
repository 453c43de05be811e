"""Each imitation matters somewhere: with it switched off, a measured recipe leaves what is allowed, or a made-up one has
other blocks than a device has. None is left out: the last test holds the list against the imitations' own.

Where a recipe was measured (live_sets.py, vram/data/h200-2.jsonl), the measurement is the judge. Elsewhere the blocks
are written down here as PyTorch or bitsandbytes makes them, with the place in their source that says so. What is shown
is that an imitation is needed and does what it says; whether it is exact on a card that nobody measured is not.
"""
import json
import os
import unittest

import live_sets
import small

SHOWN = set()
ALL = os.environ.get("SWEEP_KIT_TESTS") == "all"
WITHIN = 0.6
GEMMA, LLAMA_WITH_DROPOUT, QWEN = 2, 14, 16
FLOAT, HALF = 4, 2


def shows(name):
    def marked(test):
        SHOWN.add(name)
        return test
    return marked


class Measured(unittest.TestCase):
    """With it off, the rehearsed peak of a recipe that an H200 ran is outside of what is allowed."""

    def matters(self, name, number):
        on, off = live_sets.off_pct(number), live_sets.off_pct(number, (name,))
        self.assertTrue(all(abs(share) < WITHIN for share in on.values()), on)
        self.assertTrue(any(abs(share) > WITHIN for share in off.values()), (on, off))

    @shows("blas_workspaces")
    def test_each_thread_that_multiplies_holds_a_workspace(self):
        self.matters("blas_workspaces", GEMMA)

    @shows("backward_thread")
    def test_backward_runs_in_a_thread_of_its_own(self):
        self.matters("backward_thread", GEMMA)

    @shows("contiguous_offload")
    def test_what_is_not_contiguous_is_copied_on_its_way_to_the_host(self):
        self.matters("contiguous_offload", GEMMA)

    @shows("boolean_dropout_mask")
    def test_dropout_masks_take_a_byte(self):
        self.matters("boolean_dropout_mask", LLAMA_WITH_DROPOUT)

    @shows("attention_kernels")
    def test_flash_attention_keeps_grouped_heads_grouped(self):
        self.matters("attention_kernels", QWEN)

    @shows("attention_autocast")
    def test_attention_casts_to_half_precision(self):
        self.matters("attention_autocast", QWEN)

    @shows("untraced_masks")
    def test_masks_are_made_as_outside_of_tracing(self):
        self.matters("untraced_masks", QWEN)

    @shows("cuda_autocast_asked")
    def test_peft_is_told_that_autocast_is_on(self):
        self.matters("cuda_autocast_asked", QWEN)

    @unittest.skipUnless(ALL, "half a minute: SWEEP_KIT_TESTS=all")
    def test_softmax_product_on_a_card(self):
        """gemma 2 2B, eager attention, 6,144 tokens: without the product backward comes out a tenth too small."""
        import rehearse
        from rehearsal import devices
        from step import recipe
        rows = (live_sets.DATA / "h200-2.jsonl").read_text(encoding="utf-8").splitlines()
        row = next(row for row in map(json.loads, rows)
                   if row["model"] == "gemma-2-2b" and row["attention"] == "eager" and row["seq_len"] == 6144)
        on, off = ((rehearse.rehearse(recipe.of_row(row), devices.HOPPER, None, off)[0].peaks["backward"] / live_sets.MIB
                    / row["backward_peak_mib"] - 1) * 100 for off in ((), ("softmax_product",)))
        self.assertLess(abs(on), WITHIN)
        self.assertLess(off, -5)


class Blocks(unittest.TestCase):
    """With it off, a small recipe has other blocks than a device has; `on` and `off` are (recorder, recorder)."""

    def both(self, name, device="ampere", **given):
        wanted = small.settings(optimizer_steps=0, **given)
        return small.rehearsed(wanted, device), small.rehearsed(wanted, device, (name,))

    @shows("accumulate_in_place")
    def test_gradients_are_summed_where_they_stand(self):
        """torch/csrc/autograd/input_buffer.cpp, `accumulate`: in place if nobody else holds the gradient and it is no
        tensor subclass. So a device makes no block for a sum; there are three of the hidden state's size in one layer
        (each norm's input has two uses, and one sum is of the head's)."""
        tokens, hidden = 64, 512
        on, off = self.both("accumulate_in_place", quant="bf16", seq_len=tokens, response_len=16, targets=["gate_proj"],
                            memory_fixes=["logits_to_keep"], shape={"hidden_size": hidden, "num_hidden_layers": 1})
        only_off = small.births(off) - small.births(on)
        self.assertFalse(small.births(on) - small.births(off))
        self.assertEqual(small.of_place(only_off, "backward:PowBackward0")[tokens * hidden * FLOAT], 3)

    @shows("aligned_bias")
    def test_the_memory_efficient_kernel_wants_rows_of_eight(self):
        """aten/src/ATen/native/transformers/attention.cpp, `preprocess_mask`: the rows of a bias that are no multiple of
        8 are padded into a block of their own. cuDNN's kernel (a Hopper card's) does not: the live sets hold T x T."""
        tokens = 67
        plain, padded = tokens * tokens * HALF, tokens * 72 * HALF
        on, off = self.both("aligned_bias", family="gemma3_text", seq_len=tokens)
        self.assertEqual((small.sizes(on)[padded] > 0, small.sizes(off)[padded]), (True, 0))
        on, off = self.both("aligned_bias", family="gemma3_text", seq_len=72)   # nothing to align
        self.assertEqual(small.births(on), small.births(off))
        hopper, _ = self.both("aligned_bias", "hopper", family="gemma3_text", seq_len=tokens)
        self.assertEqual((small.sizes(hopper)[padded], small.sizes(hopper)[plain] > 0), (0, True))

    @shows("softmax_product")
    def test_the_backward_of_softmax_makes_a_product(self):
        """aten/src/ATen/native/cuda/SoftMax.cu, `softmax_backward_cuda_out`: `Tensor tmp = grad * output`, of the
        probabilities' size in fp32, for each layer once."""
        tokens, heads = 512, 4
        on, off = self.both("softmax_product", family="gemma2", attention="eager", seq_len=tokens, response_len=8,
                            memory_fixes=["logits_to_keep"])
        product = heads * tokens * tokens * FLOAT
        only_on = small.births(on) - small.births(off)
        self.assertEqual({size: times for (size, _), times in only_on.items()}, {product: 1})   # a layer in each label
        self.assertEqual(sum(only_on.values()), 2)
        self.assertGreater(on.peaks["backward"] - off.peaks["backward"], product // 3)

    @shows("half_softmax")
    def test_softmax_takes_half_precision_without_a_copy(self):
        """aten/src/ATen/native/SoftMax.cpp, `softmax`: CUDA goes from fp16 to fp32 in the kernel (`half_to_float`).
        Elsewhere the scores are copied to fp32 first: one block more a layer, in forward and in its repetition."""
        tokens, heads, layers = 128, 4, 2
        on, off = self.both("half_softmax", quant="fp16", attention="eager", seq_len=tokens, response_len=8,
                            memory_fixes=["logits_to_keep"])
        scores = heads * tokens * tokens * FLOAT
        made = [small.sizes(one, "self_attn modeling_llama")[scores] for one in (on, off)]
        self.assertEqual(made[1] - made[0], 2 * layers)

    @shows("fused_4bit")
    def test_few_rows_are_multiplied_by_a_packed_weight(self):
        """bitsandbytes/backends/cuda/ops.py, `_gemm_4bit_use_custom_cuda`: always, up to four rows. In forward the weight
        is then not made whole; in backward it is."""
        on, off = self.both("fused_4bit", seq_len=4, response_len=2)
        whole = small.WIDE["hidden_size"] * small.WIDE["intermediate_size"] * HALF
        forward = [small.sizes(one, "mlp", after=1, before=2)[whole] for one in (on, off)]
        self.assertEqual(forward, [0, 3 * small.WIDE["num_hidden_layers"]])
        self.assertGreater(small.sizes(on, "backward", after=2)[whole], 0)

    @shows("loss_in_fp32")
    def test_cross_entropy_runs_in_fp32(self):
        """ATen/autocast_mode.h lists `log_softmax` and `nll_loss` for fp32 under CUDA's autocast, not under the CPU's.
        Every loss of today's models and of the step casts its logits itself; so this one is of a loss that does not."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from rehearsal import devices, imitations
        from rehearsal.recorder import Recorder
        from step import recipe
        rows, vocabulary, made = 16, 1000, []
        for off in ((), ("loss_in_fp32",)):
            recorder = Recorder(imitations.Imitations(recipe.read(small.settings()), devices.AMPERE, off), 0)
            with recorder.imitations.installed(), FakeTensorMode(), recorder:
                logits = torch.empty(rows, vocabulary, dtype=torch.bfloat16)
                torch.nn.functional.cross_entropy(logits, torch.zeros(rows, dtype=torch.long))
            made.append([small.sizes(recorder)[rows * vocabulary * width] for width in (HALF, FLOAT)])
        self.assertEqual(made, [[1, 2], [2, 0]])   # the logits; their copy and the result, or the result in bf16


class Whole(unittest.TestCase):
    def test_none_is_forgotten(self):
        from rehearsal import imitations
        self.assertEqual(SHOWN, set(imitations.ALL))

    def test_an_unknown_name_is_refused(self):
        with self.assertRaisesRegex(ValueError, "unknown imitations"):
            small.rehearsed(small.settings(), "ampere", ("gravity",))


class Families(unittest.TestCase):
    """Small models of each family are rehearsed, and bigger recipes take more."""

    def test_each_family_is_rehearsed(self):
        for family in small.FAMILIES:
            with self.subTest(family):
                attention = "eager" if family == "gemma2" else "sdpa"
                less, more = (small.rehearsed(small.settings(family, attention=attention, seq_len=tokens, optimizer_steps=1))
                              for tokens in (64, 512))
                self.assertLess(less.peaks["pre_step"], less.peaks["backward"])
                self.assertLess(less.peaks["backward"], more.peaks["backward"])
                self.assertEqual(less.peaks["pre_step"], more.peaks["pre_step"])


if __name__ == "__main__":
    unittest.main()
