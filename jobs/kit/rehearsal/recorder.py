"""Writes the allocation stream of fake tensors: births and deaths of storages, marks, and a label for each block.

Lines: `a SIZE LABEL` an allocation (bytes asked for), `f N` the end of the N-th, `E` the cache was emptied, `m K` a
mark. A label is the module's path and the line of code that asked, `layers.3.mlp.gate_proj modeling_llama.py:164`.
"""
import functools
import sys
import threading
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

BLOCK = 512
DEVICE = torch.ops.prim.device.default
MIB = 2**20
#: Frames of these are not what a reader looks for.
PLUMBING = ("/torch/", "/rehearsal/", "step/machine.py", "/threading.py", "/contextlib.py", "/functools.py")


class Recorder(TorchDispatchMode):
    """One rehearsal's stream. `workspace` is the size in bytes of a BLAS workspace of the card that is stood for."""

    def __init__(self, imitations, workspace):
        super().__init__()
        self.imitations, self.workspace = imitations, workspace
        self.lines, self.live, self.births = [], {}, []
        self.count, self.total, self.peak = 0, 0, 0
        self.handles = set()
        self.out_of_memory = False
        self.path, self.paths, self.behind, self.labels = "", [], "", {}
        self.peaks = {}

    # -- blocks

    def birth(self, size, label):
        number, rounded = self.count, -(-size // BLOCK) * BLOCK
        self.count += 1
        self.total += rounded
        self.peak = max(self.peak, self.total)
        self.births.append(len(self.lines))
        self.lines.append(f"a {size} {label}" if label else f"a {size}")
        return number, rounded

    def death(self, block):
        number, rounded = block
        self.total -= rounded
        self.lines.append(f"f {number}")

    def storage_born(self, storage):
        key = storage._cdata
        if key in self.live:
            return
        size = storage.nbytes()
        if size:
            self.live[key] = self.birth(size, self.label())
            weakref.finalize(storage, self.storage_died, key)

    def storage_died(self, key):
        block = self.live.pop(key, None)
        if block is None or self.out_of_memory:
            return
        try:
            self.death(block)
        except MemoryError:   # whoever calls this can only print it: once for each block that is left
            self.out_of_memory = True

    def storage_moved(self, before, after):
        """The block of one storage goes on under another."""
        block = self.live.pop(before._cdata, None)
        if block is None:
            return False
        self.live[after._cdata] = block
        weakref.finalize(after, self.storage_died, after._cdata)
        return True

    # -- stages

    def empty_cache(self):
        self.lines.append("E")

    def mark(self, number):
        self.lines.append(f"m {number}")
        if number == 1:
            self.peak = self.total
            self.peaks["pre_step"] = self.total
        else:
            # Of the first step; 4 is the end of the last.
            name = {2: "forward", 3: "backward", 4: "optimizer", 10: "after_load"}.get(number)
            if name:
                self.peaks.setdefault(name, self.total if number == 10 else self.peak)

    # -- labels

    def belongs(self, storage, path):
        """Says of a block that is there whose it is: a model is built by no module's forward."""
        block = self.live.get(storage._cdata)
        if block is not None:
            at = self.births[block[0]]
            _, size, label = self.lines[at].split(" ", 2)
            self.lines[at] = f"a {size} {path} {label.split(' ', 1)[-1]}"

    def entered(self, module, name):
        self.paths.append(self.path)
        self.path = name
        # A layer is run again just before its backward, whose operations belong to no module.
        at = name.find("layers.")
        if at >= 0:
            self.behind = ".".join(name[at:].split(".")[:2])

    def left(self):
        self.path = self.paths.pop() if self.paths else ""

    def label(self):
        frame, place = sys._getframe(2), None
        while frame is not None:
            code = frame.f_code
            place = self.labels.get((code, frame.f_lineno))
            if place is None:
                place = _place(code.co_filename, frame.f_lineno)
                self.labels[(code, frame.f_lineno)] = place
            if place:
                break
            frame = frame.f_back
        where = self.path or "step"
        if threading.current_thread().name == "backward":
            node = torch._C._current_autograd_node()
            if node is not None and not self.path:
                return f"{self.behind or where} backward:{node.name()} {place or ''}".rstrip()
        return f"{where} {place or ''}".rstrip()

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here, and the wrapper that keeps the compiler out costs more than most operations.
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is DEVICE:   # asked for at every turn, and makes nothing
            return func(*args)
        made = self.imitations.before(self, func, args)
        if made is not None:
            return made
        scratch = self.imitations.scratch(func, args)
        held = self.birth(scratch, self.label()) if scratch else None
        result = func(*args, **(kwargs or {}))
        if _gives_view(func) and isinstance(result, torch.Tensor):
            result.rehearsed_view = True
        if self.imitations.in_place(self, func, args, result):
            return result
        for one in torch.utils._pytree.tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.storage_born(one.untyped_storage())
        self.imitations.after(self, func)
        if held:
            self.death(held)
        return result


@functools.cache
def _gives_view(func):
    return any(given.alias_info is not None and not given.alias_info.is_write for given in func._schema.returns)


def _place(path, line):
    """`file.py:line`, or the empty string for plumbing."""
    plain = path.replace("\\", "/")
    if any(part in plain for part in PLUMBING) or plain.startswith("<"):
        return ""
    return f"{plain.rsplit('/', 1)[-1]}:{line}"
