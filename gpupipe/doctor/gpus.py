"""Each GPU that this process may use: what it can, and how much of its memory is free."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.backends.probe import MIN_CAPABILITY, GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.extras import MIN_CAPABILITY_CUDA13, install_extra, replace_all
from gpupipe.doctor.finding import Finding
from gpupipe.units import GIB

SCARCE = 0.25  # of a GPU's memory: less is what other processes leave of it


def gpu_findings(gpus: Sequence[GpuProbe], installed: Distributions) -> list[Finding]:
    """Return a finding for each GPU; none where the driver described none."""
    return [_finding(f"GPU {index}", gpu, installed) for index, gpu in enumerate(gpus) if gpu.count]


def _finding(check: str, gpu: GpuProbe, installed: Distributions) -> Finding:
    capability = ".".join(map(str, gpu.capability))
    memory = f"{gpu.free_bytes / GIB:.1f} of {gpu.memory_bytes / GIB:.1f} GiB free"
    found = f"{gpu.name}, compute capability {capability}, {memory}"
    if gpu.capability < MIN_CAPABILITY:  # no command mends it, and the CPU is the best that this machine has
        return Finding("warning", check, f"{found}: too old, {'.'.join(map(str, MIN_CAPABILITY))} is needed")
    wheels = installed.cuda_majors().get(13, [])
    if wheels and gpu.capability < MIN_CAPABILITY_CUDA13:
        found += f": too old for the wheels of CUDA 13 ({', '.join(wheels)}), which need 7.5"
        return Finding("error", check, found, replace_all(wheels, install_extra(12)))
    if gpu.free_bytes < SCARCE * gpu.memory_bytes:
        return Finding("warning", check, found, "nvidia-smi names the processes that hold it: end those not needed")
    return Finding("ok", check, found)
