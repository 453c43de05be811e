"""The rehearsal's machine: what the step asks of a device, answered without one."""
import gc
import threading

import torch

from . import stand_ins

#: bitsandbytes keeps smaller parameters in 32 bits, and pages tensors from so many elements on.
SMALLEST_8BIT, SMALLEST_PAGED = 4096, 100_000


class Rehearsal:
    def __init__(self, recorder, fake, recipe):
        self.recorder, self.fake, self.recipe = recorder, fake, recipe
        self.imitations = recorder.imitations
        # Fake tensors of device "cuda" fail in backward where no card is present.
        self.device = self.build_device = torch.device("cpu")

    def empty_cache(self):
        gc.collect()
        self.recorder.empty_cache()

    def loaded(self):
        self.recorder.mark(10)

    def mark(self, number):
        self.recorder.mark(number)

    def linear(self, layer, recipe):
        return stand_ins.linear(layer, recipe, self.imitations)

    def backward(self, loss, hooks):
        self.recorder.behind = "head"   # until the last layer is run again
        if not self.imitations.on("backward_thread"):
            with hooks():
                loss.backward()
            return
        failed = []

        def engine():
            with self.fake, self.recorder, hooks():
                torch.set_autocast_enabled("cpu", self.recipe.autocast)
                torch.set_autocast_dtype("cpu", getattr(torch, self.recipe.half))
                try:
                    loss.backward()
                except BaseException as error:   # carried to the thread that asked
                    failed.append(error)

        thread = threading.Thread(target=engine, name="backward")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def saved_on_host(self, tensor):
        if self.imitations.on("contiguous_offload"):
            tensor.contiguous()
        return tensor.size(), tensor.dtype

    def back_from_host(self, packed):
        size, dtype = packed
        return torch.empty(size, dtype=dtype)

    def optimizer(self, recipe, parameters):
        return Optimizer(recipe.optimizer, parameters, self.recorder)


class Optimizer:
    """State as the named optimizer keeps it, and what a step of it holds for a moment."""

    def __init__(self, kind, parameters, recorder):
        self.recorder = recorder
        self.kind, self.parameters, self.state = kind, list(parameters), []

    def step(self):
        self.recorder.path, before = "optimizer", self.recorder.path
        self._step()
        self.recorder.path = before

    def _step(self):
        trained = [weight for weight in self.parameters if weight.grad is not None]
        if not self.state:
            if self.kind.endswith("8bit"):
                self.state += [torch.empty(256), torch.empty(256)]
            for weight in trained:
                self.state += self._state_of(weight.numel())
        if self.kind == "adamw":
            # torch works on all parameters at once, with their roots in a list.
            roots = [torch.empty_like(weight) for weight in trained]
            del roots

    def _state_of(self, numel):
        if self.kind == "sgd":
            return []
        paged = self.kind.startswith("paged") and numel >= SMALLEST_PAGED
        if self.kind.endswith("8bit") and numel >= SMALLEST_8BIT:
            made = [] if paged else [torch.empty(numel, dtype=torch.uint8), torch.empty(numel, dtype=torch.uint8)]
            return made + [torch.empty(-(-numel // 256)), torch.empty(-(-numel // 256))]
        return [] if paged else [torch.empty(numel), torch.empty(numel)]

    def zero_grad(self, set_to_none=True):
        for weight in self.parameters:
            weight.grad = None
