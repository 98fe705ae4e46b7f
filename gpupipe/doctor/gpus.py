"""Checks of the GPUs visible to this process: compute capability, free memory, and CUDA initialization."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.backends.probe import MIN_CAPABILITY, GpuProbe
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import evaluate_in_child
from gpupipe.units import GIB

SCARCE = 0.25  # free share of a GPU's memory; less means that other processes occupy it


def gpu_findings(gpus: Sequence[GpuProbe]) -> list[Finding]:
    """Return a finding for each GPU that the driver describes."""
    return [_finding(f"GPU {index}", gpu) for index, gpu in enumerate(gpus) if gpu.count]


def _finding(check: str, gpu: GpuProbe) -> Finding:
    capability = ".".join(map(str, gpu.capability))
    memory = f"{gpu.free_bytes / GIB:.1f} of {gpu.memory_bytes / GIB:.1f} GiB free"
    found = f"{gpu.name}, compute capability {capability}, {memory}"
    if gpu.capability < MIN_CAPABILITY:  # not an error: there is no fix, and the machine computes on the CPU
        return Finding("warning", check, f"{found}: too old, requires {'.'.join(map(str, MIN_CAPABILITY))}")
    if gpu.free_bytes < SCARCE * gpu.memory_bytes:
        return Finding("warning", check, found, "end processes that occupy the GPU's memory (nvidia-smi lists them)")
    return Finding("ok", check, found)


CUDA_CHECK = "CUDA"
# NVML can work on a machine where CUDA does not, so CUDA is initialized too; in a child process, because a process that
# has initialized CUDA can no longer fork GPU workers.
START = """
import ctypes
cuda, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_char_p()
code = cuda.cuInit(0)
cuda.cuGetErrorName(code, ctypes.byref(name))
"""
COMPAT = "remove the cuda-compat folder from LD_LIBRARY_PATH, or update the driver (for a container, on its host)"
FIXES = {
    "CUDA_ERROR_NO_DEVICE": "give this process access to /dev/nvidia* (in a container: docker run --gpus all …)",
    "CUDA_ERROR_OPERATING_SYSTEM": "give this process access to /dev/nvidia* (in a container: docker run --gpus all …)",
    "CUDA_ERROR_SYSTEM_NOT_READY": "sudo systemctl start nvidia-fabricmanager (its version must match the driver's)",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": COMPAT,
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": COMPAT,
    "CUDA_ERROR_UNKNOWN": "sudo modprobe nvidia_uvm; if that does not help, restart the machine",
}


def cuda_findings(gpu: GpuProbe, timeout_seconds: float) -> list[Finding]:
    """Return a finding on CUDA initialization; none without a usable GPU."""
    if not gpu.usable:
        return []
    failure, found = evaluate_in_child(START, '[code, (name.value or b"").decode()]', timeout_seconds)
    if failure:
        return [Finding("error", CUDA_CHECK, f"initialization failed: {failure}", "reinstall the NVIDIA driver")]
    code, name = found
    if code == 0:
        return [Finding("ok", CUDA_CHECK, "initialized")]
    fix = FIXES.get(name, "restart the machine; if that does not help, check sudo dmesg | grep -i nvrm")
    return [Finding("error", CUDA_CHECK, f"initialization failed: error {code}, {name}", fix)]
