"""The device of a real step, with its peaks read off the framework: watched (a training) or recorded whole (a probe).

On a CPU the peak is resident memory, and there is no stream.
"""
import gzip
import os

import torch

from sweep_report import peak_resident_mib
from step.machine import Card

MIB = 2**20
#: Marks of a stream are blocks of a few bytes that nothing else asks for: 100 + their number.
MARK = 100
#: Holds the framework's allocator to so many MiB of reserved memory, from before the first step on.
LIMIT = "SWEEP_ALLOCATOR_LIMIT_MIB"


def mib(size):
    return round(size / MIB, 1)


class Watched(Card):
    """Notes peaks, and holds the allocator to a limit where there is one (an argument, else $SWEEP_ALLOCATOR_LIMIT_MIB)."""

    def __init__(self, limit_mib=None, device=None):
        super().__init__(device)
        told = os.environ.get(LIMIT)
        self.limit_mib = limit_mib if limit_mib is not None else float(told) if told else None
        self.peaks, self.steps = {}, []
        self._peak = [0.0, 0.0]

    @property
    def is_card(self):
        return self.device.type == "cuda"

    def loaded(self):
        if self.is_card:
            self.peaks["after_load_mib"] = mib(torch.cuda.memory_allocated())

    def mark(self, number):
        if not self.is_card:
            return
        if number == 1:
            self.peaks["pre_step_mib"] = mib(torch.cuda.memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            if self.limit_mib:
                total = torch.cuda.get_device_properties(self.device).total_memory
                torch.cuda.set_per_process_memory_fraction(min(1.0, self.limit_mib * MIB / total))

    def window(self):
        """Peaks since the last call, for a report; the highest of all are kept."""
        if not self.is_card:
            return {"peak_resident_mib": peak_resident_mib()}
        now = self._now()
        torch.cuda.reset_peak_memory_stats()
        return {"peak_allocated_mib": now[0], "peak_reserved_mib": now[1]}

    def _now(self):
        now = [mib(torch.cuda.max_memory_allocated()), mib(torch.cuda.max_memory_reserved())]
        self._peak = [max(pair) for pair in zip(self._peak, now)]
        return now

    def highest(self):
        """Of the whole run, loading excluded."""
        if not self.is_card:
            return {"peak_resident_mib": peak_resident_mib()}
        self._now()
        return {"peak_allocated_mib": self._peak[0], "peak_reserved_mib": self._peak[1]}


class Recorded(Watched):
    """Keeps the allocation stream, too: the framework's own history, without stacks, which is cheap."""

    def __init__(self, limit_mib=None, device=None):
        super().__init__(limit_mib, device)
        self.marks = []
        if self.is_card:
            torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=5_000_000)

    def mark(self, number):
        if not self.is_card:
            return
        # Kept until the end: what is freed at once would be taken by the next block.
        self.marks.append(torch.empty(MARK + number, dtype=torch.uint8, device=self.device))
        super().mark(number)
        peak = mib(torch.cuda.max_memory_allocated())
        # Forward's and backward's are of the first step.
        if number == 2:
            self.peaks.setdefault("forward_peak_mib", peak)
        if number == 3:
            self.peaks.setdefault("backward_peak_mib", peak)
            self.steps.append([peak, mib(torch.cuda.max_memory_reserved())])

    def write_stream(self, path):
        """`a`, `f`, `S` and `F` in the order of time, marks read off their sizes. Gives how many events there are."""
        device = torch.cuda.current_device()
        trace = torch.cuda.memory._snapshot(device=device)["device_traces"][device]
        numbers, count, part = {}, 0, f"{path}.part"
        with gzip.open(part, "wt", compresslevel=6, encoding="utf-8") as file:
            for entry in trace:
                # An out of memory has no address.
                action, size, address = entry["action"], entry.get("size", 0), entry.get("addr")
                if action == "alloc":
                    numbers[address] = count
                    count += 1
                    mark = MARK < size <= MARK + 4
                    file.write(f"m {size - MARK}\n" if mark else f"a {size}\n")
                elif action == "free_completed":
                    number = numbers.pop(address, None)
                    if number is not None:
                        file.write(f"f {number}\n")
                elif action in ("segment_alloc", "segment_map"):
                    file.write(f"S {size}\n")
                elif action in ("segment_free", "segment_unmap"):
                    file.write(f"F {size}\n")
        os.replace(part, path)
        return len(trace)
