"""Description of the machine and the device that a measurement ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from gpupipe.backends import device_report
from gpupipe.backends.base import Backend
from gpupipe.units import GIB


def describe_machine() -> dict[str, Any]:
    """Return CPU, cores, threads used by a run, memory, operating system, Python version and the current load."""
    report = device_report()
    load = os.getloadavg() if hasattr(os, "getloadavg") else (0.0, 0.0, 0.0)
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": report.n_threads,
        "memory_gib": round(report.memory.total / GIB, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": [round(value, 2) for value in load],
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the CPU, as reported by the system."""
    try:
        lines = cpuinfo.read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def describe_device(backend: Backend) -> dict[str, str]:
    """Return the name of the device and the reason for its choice; on the CPU also why no GPU was measured."""
    described = {"name": backend.name, "reason": backend.reason}
    if backend.name == "cpu":
        obstacle = device_report().gpu_obstacle
        described["gpu"] = f"not measured: {obstacle or 'the configuration selects the CPU'}"
    return described
