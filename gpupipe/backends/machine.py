"""Threads and memory that this process may use, with the limits of its container.

Inside a container the operating system reports the whole host; the limits are in cgroup files, of which there are two
layouts: v2 (``cpu.max``, ``memory.max``) and v1 (``cpu.cfs_quota_us``, ``memory.limit_in_bytes``).
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpupipe.errors import ConfigError

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")

# (limit, use, the line of memory.stat with the reclaimable file cache), v2 and v1
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


@dataclass(frozen=True)
class MemoryFigures:
    """Memory figures in bytes.

    `total` is the smaller of the machine's memory and the cgroup's limit; `peak` is that of this process.
    """

    total: int
    available: int
    peak: int


def n_threads() -> int:
    """Return the number of threads to use: ``GPUPIPE_THREADS``, else the cores by affinity and quota; at least 1.

    Raise ConfigError if ``GPUPIPE_THREADS`` is not a whole number above 0.
    """
    asked = os.environ.get("GPUPIPE_THREADS", "").strip()
    if not asked:
        return _cores()
    if not asked.isdecimal() or int(asked) == 0:
        raise ConfigError(
            f"expected a whole number above 0 in GPUPIPE_THREADS; found {asked!r}",
            fix="set it to 1 or more, or unset it",
        )
    return int(asked)


def _cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def cpu_quota(cgroups: Path = CGROUPS, proc: Path = PROC) -> float | None:
    """Return the CPU quota of the tightest cgroup in cores; None without a limit."""
    quotas = (_quota(folder) for folder in _cgroup_folders("cpu", cgroups, proc))
    return min((quota for quota in quotas if quota is not None), default=None)


def memory(cgroups: Path = CGROUPS, proc: Path = PROC, limit: int | None = None) -> MemoryFigures:
    """Return host memory figures in bytes: the smallest of the machine, the tightest cgroup and `limit`.

    `limit` is that of this process; its current memory is subtracted.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available = _kilobytes(proc / "meminfo", "MemAvailable:") or total
    for folder in _cgroup_folders("memory", cgroups, proc):
        for limit_file, used_file, cache in MEMORY_FILES:
            bound = _read(folder / limit_file)
            if bound.isdecimal():
                used = int(_read(folder / used_file) or 0) - _value(folder / "memory.stat", cache)
                total = min(total, int(bound))
                available = min(available, max(0, int(bound) - used))
    if limit is not None:
        total = min(total, limit)
        available = min(available, max(0, limit - _kilobytes(proc / "self" / "status", "VmRSS:")))
    return MemoryFigures(total=total, available=available, peak=peak_bytes(proc))


def peak_bytes(proc: Path = PROC) -> int:
    """Return the peak memory of this process."""
    peak = _kilobytes(proc / "self" / "status", "VmHWM:")
    if peak:
        return peak
    import resource  # less accurate: the figure of a child starts at that of its parent

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _cgroup_folders(controller: str, cgroups: Path, proc: Path) -> list[Path]:
    """Return the folders whose limits apply to this process: its cgroup and all above it, in both layouts."""
    folders: list[Path] = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        own = PurePosixPath(path.lstrip("/"))
        root = cgroups / controller if controllers else cgroups
        folders += [root / inner for inner in (own, *own.parents)]
    return folders


def _quota(folder: Path) -> float | None:
    v1 = f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
    quota, _, period = (_read(folder / "cpu.max") or v1).partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None  # "max" and -1: no limit


def _kilobytes(file: Path, name: str) -> int:
    return 1024 * _value(file, name)


def _value(file: Path, name: str) -> int:
    """Return the number after `name` in a file of such lines; 0 if it is absent."""
    for line in _read(file).splitlines():
        words = line.split()
        if words[:1] == [name] and len(words) > 1 and words[1].isdecimal():
            return int(words[1])
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()  # the name of a process may be any bytes
    except OSError:
        return ""
