"""Whether CUDA itself starts. The management library may answer where it does not: only the attempt shows that.

Made in a process of its own: one that has started CUDA can no longer fork GPU workers.
"""

from __future__ import annotations

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import in_a_process

CHECK = "CUDA"
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
    """Return whether CUDA starts; nothing where there is no usable GPU to start it on."""
    if not gpu.usable:
        return []
    failure, output = in_a_process(START, timeout_seconds)
    if failure:
        return [Finding("error", CHECK, f"cannot be started: {failure}", "reinstall the NVIDIA driver")]
    code, _, name = output.strip().partition(" ")
    if code == "0":
        return [Finding("ok", CHECK, "starts")]
    fix = FIXES.get(name, "restart the machine; see sudo dmesg | grep -i nvrm")
    return [Finding("error", CHECK, f"does not start: error {code}, {name}", fix)]
