"""Calls of NVIDIA's management library (NVML) through ctypes, and the GPUs that this process may use.

CUDA is not initialised: a process that has done so can no longer fork GPU workers.
"""

from __future__ import annotations

import ctypes
import os

NVML_ERRORS = {
    3: "this driver does not support the call",
    4: "no permission to use the GPU",
    8: "a GPU's power cables are not attached",
    9: "the NVIDIA kernel driver is not loaded",
    12: "a part of the driver's library is missing",
    15: "the GPU has fallen off the bus: restart the machine",
    18: "kernel driver and driver library have different versions: restart the machine or reinstall the driver",
}


class NvmlError(Exception):
    """Failed call of the driver: the reason as a sentence, and as one word in `obstacle`."""

    def __init__(self, sentence: str, obstacle: str) -> None:
        self.obstacle = obstacle
        super().__init__(sentence)


class Nvml:
    """NVIDIA's management library; each failure raises an `NvmlError`."""

    def __init__(self) -> None:
        _refuse_if_hidden()
        self._library = _open_library("libnvidia-ml.so.1", "no NVIDIA driver", "no_driver")
        without_cuda = "an NVIDIA driver without CUDA (in a container: start it with --gpus all)"
        _open_library("libcuda.so.1", without_cuda, "no_cuda")
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:
            sentence = f"the driver's management library has no function {function}"
            raise NvmlError(sentence, "no_function") from None
        if code != 0:
            meaning = NVML_ERRORS.get(code, "see nvidia-smi")
            raise NvmlError(f"the driver answers {function} with error {code}: {meaning}", f"nvml_{code}")

    def close(self) -> None:
        self._library.nvmlShutdown()

    def text(self, function: str, *arguments: object) -> str:
        buffer = ctypes.create_string_buffer(96)
        self.call(function, *arguments, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode(errors="replace")

    def count(self) -> int:
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def cuda_version(self) -> tuple[int, int]:
        version = ctypes.c_int()
        self.call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        return version.value // 1000, version.value % 1000 // 10

    def handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def uuid(self, index: int) -> str:
        return self.text("nvmlDeviceGetUUID", self.handle(index))

    def capability(self, handle: ctypes.c_void_p) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def memory(self, handle: ctypes.c_void_p) -> tuple[int, int]:
        """Return the total and the free bytes of the GPU."""
        total_free_used = (ctypes.c_ulonglong * 3)()
        self.call("nvmlDeviceGetMemoryInfo", handle, total_free_used)
        return int(total_free_used[0]), int(total_free_used[1])

    def driver(self) -> str:
        return self.text("nvmlSystemGetDriverVersion")

    def millijoules(self, handle: ctypes.c_void_p) -> int:
        """Return the energy that the GPU has used since its driver was loaded."""
        energy = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(energy))
        return energy.value

    def milliwatts(self, handle: ctypes.c_void_p) -> int:
        """Return the current power of the GPU; from Ampere on, the mean of the last second."""
        return self.number("nvmlDeviceGetPowerUsage", handle)

    def number(self, function: str, *arguments: object) -> int:
        """Return the number that a function stores in its last argument, an unsigned int."""
        value = ctypes.c_uint()
        self.call(function, *arguments, ctypes.byref(value))
        return value.value

    def utilization(self, handle: ctypes.c_void_p) -> tuple[int, int]:
        """Return the percentages of time in which kernels ran, and in which memory was read or written."""
        busy = (ctypes.c_uint * 2)()
        self.call("nvmlDeviceGetUtilizationRates", handle, busy)
        return busy[0], busy[1]

    def clock_limits(self, handle: ctypes.c_void_p) -> int:
        """Return the reasons that the clocks are below their maximum, as bits."""
        reasons = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(reasons))
        return reasons.value

    def slice_handle(self, identifier: str) -> ctypes.c_void_p | None:
        """Return the handle of a slice of a GPU (MIG) by its identifier; None if there is none."""
        handle = ctypes.c_void_p()
        try:
            self.call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(identifier.encode()), ctypes.byref(handle))
        except NvmlError:
            return None
        return handle

    def whole_gpu(self, handle: ctypes.c_void_p) -> ctypes.c_void_p:
        """Return the GPU that a slice belongs to, or `handle` itself."""
        whole = ctypes.c_void_p()
        try:
            self.call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, ctypes.byref(whole))
        except NvmlError:
            return handle
        return whole


def visible_gpus(nvml: Nvml) -> list[ctypes.c_void_p]:
    """Return the handles of the GPUs and slices in CUDA_VISIBLE_DEVICES, in its order; at least one."""
    installed = nvml.count()
    if installed == 0:
        raise NvmlError(f"the NVIDIA driver {nvml.driver()} finds no GPU", "no_gpu")
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return [nvml.handle(index) for index in range(installed)]
    visible: list[ctypes.c_void_p] = []
    for entry in value.split(","):
        handle = _find(entry.strip(), nvml, installed)
        if handle is None:  # CUDA ignores an entry that it cannot resolve, and all that follow
            break
        visible.append(handle)
    if not visible:
        why = _why_none(value.split(",")[0].strip(), installed)
        raise NvmlError(f"CUDA_VISIBLE_DEVICES={value!r} {why}", "not_visible")
    return visible


def _find(entry: str, nvml: Nvml, installed: int) -> ctypes.c_void_p | None:
    if entry.isdecimal():
        return nvml.handle(int(entry)) if int(entry) < installed else None
    if entry.startswith("GPU-"):  # CUDA accepts any unambiguous prefix of the identifier
        matches = [index for index in range(installed) if nvml.uuid(index).startswith(entry)]
        return nvml.handle(matches[0]) if len(matches) == 1 else None
    return nvml.slice_handle(entry) if entry.startswith("MIG-") else None


def _why_none(entry: str, installed: int) -> str:
    if entry.startswith("MIG-"):
        return "names no slice of a GPU (MIG) of this machine; nvidia-smi -L lists them"
    if entry.isdecimal() or entry.startswith("GPU-"):
        return f"names none of this machine's {installed} GPU{'s' if installed > 1 else ''}"
    return "is invalid: expected numbers (0,1) or identifiers (GPU-… or MIG-…, from nvidia-smi -L)"


def _refuse_if_hidden() -> None:
    if os.environ.get("GPUPIPE_FORCE_CPU", "") not in ("", "0"):
        raise NvmlError("GPUPIPE_FORCE_CPU is set", "hidden")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        raise NvmlError(f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU", "hidden")


def _open_library(name: str, refusal: str, obstacle: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError:
        raise NvmlError(f"{refusal}: {name} cannot be loaded", obstacle) from None
