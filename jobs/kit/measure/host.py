"""Host memory that is still free: the machine's, or the cgroup's where that leaves less. None where nobody says."""
import pathlib


def free_mib():
    said = [one for one in (_machine(), _cgroup()) if one is not None]
    return min(said) if said else None


def _machine():
    try:
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil
        return psutil.virtual_memory().available / 2**20
    except ImportError:
        return None


def _cgroup(root="/sys/fs/cgroup", own="/proc/self/cgroup"):
    try:
        path = next(line[3:] for line in pathlib.Path(own).read_text().splitlines() if line.startswith("0::"))
        folder = pathlib.Path(root) / path.lstrip("/")
        limit = (folder / "memory.max").read_text().strip()
        if limit == "max":
            return None
        # Pages of files count as used there and can be given back.
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
        return (int(limit) - used) / 2**20
    except (OSError, ValueError, StopIteration):
        return None
