"""What of a card changes the sizes of blocks: its BLAS workspace and the attention kernels that PyTorch takes on it.

The same table as vram/src/row.rs, by the card's name. A row of a table whose card is not known is taken for an NVIDIA card
of the Ampere years; what somebody names must be known.
"""
import dataclasses

MIB = 2**20
#: PyTorch's own choice (aten/src/ATen/cuda/CublasHandlePool.cpp): 2 x 4 MiB + 8 x 16 KiB before Hopper.
SMALL, LARGE = 8.125, 32.0


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    workspace_mib: float
    #: Where attention needs no mask, and where it does: flash, efficient, cudnn, triton.
    plain: str
    masked: str
    #: How many, and the compute capability: bitsandbytes chooses its kernels by them. Of the T4, RTX 3070 Ti, H200 and
    #: RTX 5060 Ti; others of their years differ in the number only.
    multiprocessors: tuple = (0, 0, 0)


TURING = Device("turing", SMALL, "efficient", "efficient", (40, 7, 5))
AMPERE = Device("ampere", SMALL, "flash", "efficient", (48, 8, 6))
HOPPER = Device("hopper", LARGE, "flash", "cudnn", (132, 9, 0))
BLACKWELL = Device("blackwell", LARGE, "flash", "efficient", (36, 12, 0))
ROCM = Device("rocm", LARGE, "triton", "triton")
ALL = {one.name: one for one in (TURING, AMPERE, HOPPER, BLACKWELL, ROCM)}
_NAMES = (
    (ROCM, ("AMD", "Radeon", "RX ")),
    (TURING, ("T4", "RTX 20", "GTX 16", "V100")),
    (HOPPER, ("H100", "H200", "GH200")),
    (BLACKWELL, ("RTX 50", "B200", "B100", "GB10")),
    (AMPERE, ("RTX 30", "RTX 40", "RTX A", "A100", "A10", "A40", "L4", "A30", "RTX 6000 Ada")),
)


def of(gpu, vendor=""):
    if vendor == "amd":
        return ROCM
    return _by_name(gpu) or AMPERE


def named(text):
    """By a card's name or by that of its years; None where nobody knows it."""
    return ALL.get(text) or _by_name(text)


def _by_name(gpu):
    for device, names in _NAMES:
        if any(name.lower() in (gpu or "").lower() for name in names):
            return device
    return None
