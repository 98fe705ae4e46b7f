"""Each GPU that this process may use: what it can, how much of its memory is free, and whether CUDA starts on it."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.backends.probe import MIN_CAPABILITY, GpuProbe
from gpupipe.doctor.distributions import MIN_CAPABILITY_CUDA13, Distributions, install_extra, replace_all
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import in_a_process
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


CUDA_CHECK = "CUDA"
# NVML may answer where CUDA does not start: only the attempt shows that. It is made in a process of its own, since one
# that has started CUDA can no longer fork GPU workers.
START = """
import ctypes
cuda, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_char_p()
code = cuda.cuInit(0)
cuda.cuGetErrorName(code, ctypes.byref(name))
print(code, (name.value or b"").decode())
"""
COMPAT = "take the folder of cuda-compat out of LD_LIBRARY_PATH, or update the driver (in a container: the host's)"
FIXES = {
    "CUDA_ERROR_NO_DEVICE": "let this process open /dev/nvidia* (in a container: docker run --gpus all …)",
    "CUDA_ERROR_OPERATING_SYSTEM": "let this process open /dev/nvidia* (in a container: docker run --gpus all …)",
    "CUDA_ERROR_SYSTEM_NOT_READY": "sudo systemctl start nvidia-fabricmanager (of the driver's version)",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": COMPAT,
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": COMPAT,
    "CUDA_ERROR_UNKNOWN": "sudo modprobe nvidia_uvm; where that does not help, restart the machine",
}


def cuda_findings(gpu: GpuProbe, timeout_seconds: float) -> list[Finding]:
    """Return whether CUDA starts; no finding without a usable GPU."""
    if not gpu.usable:
        return []
    failure, output = in_a_process(START, timeout_seconds)
    if failure:
        return [Finding("error", CUDA_CHECK, f"cannot be started: {failure}", "reinstall the NVIDIA driver")]
    code, _, name = output.strip().partition(" ")
    if code == "0":
        return [Finding("ok", CUDA_CHECK, "starts")]
    fix = FIXES.get(name, "restart the machine; see sudo dmesg | grep -i nvrm")
    return [Finding("error", CUDA_CHECK, f"does not start: error {code}, {name}", fix)]
