"""What other processes hold of the card, asked of the driver's own tool. None where there is no tool, or it does not say."""
import os
import subprocess


def used_mib():
    """Of the card, by everybody. Others' share only while this process has no context of its own there."""
    said = _ask("--query-gpu=memory.used")
    try:
        return float(said[0]) if said else None
    except ValueError:
        return None


def held_mib():
    """By the processes that are not this one; None where the driver does not list this one (in a container)."""
    said = _ask("--query-compute-apps=pid,used_memory")
    try:
        each = {int(pid): float(size) for pid, size in (line.split(",") for line in said or [])}
    except ValueError:
        return None
    return sum(size for pid, size in each.items() if pid != os.getpid()) if os.getpid() in each else None


def _ask(query):
    card = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "-i", card]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line for line in done.stdout.splitlines() if line.strip()]
