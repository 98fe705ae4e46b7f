"""Is there a usable NVIDIA GPU, and are the packages that would use it installed?

``import cudf`` succeeds on a machine without a GPU, so an ImportError answers nothing. The driver's own management
library does, in a fraction of a millisecond: it is asked through ctypes, CUDA itself is only opened and never
initialised (a process that has initialised it can no longer fork GPU workers), and no GPU package is imported.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

# The oldest that any RAPIDS wheel of the cuda12 extra runs on; the cuda13 wheels need (13, 0) and (7, 5).
MIN_CUDA = (12, 0)
MIN_CAPABILITY = (7, 0)

GPU_PACKAGES = ("cudf", "cuml", "cupy", "rmm")

NVML_ERRORS = {
    3: "this driver does not support the call",
    4: "no permission to use the GPU",
    8: "a GPU's power cables are not attached",
    9: "the NVIDIA kernel driver is not loaded",
    12: "a part of the driver's own library is missing",
    15: "the GPU has fallen off the bus: restart the machine",
    18: "kernel driver and driver library are of different versions: restart the machine or reinstall the driver",
}


@dataclass(frozen=True)
class Gpu:
    """What the probe saw.

    Attributes
    ----------
    usable : bool
    reason : str
        What was found, or why it cannot be used, in words.
    count : int
        GPUs that this process may use (``CUDA_VISIBLE_DEVICES`` counted).
    name, driver : str
        Of the first of them: ``"NVIDIA H100"``, ``"580.95.05"``.
    cuda : (int, int)
        The highest CUDA version that the driver supports.
    capability : (int, int)
        Compute capability of the first GPU.
    memory_bytes, free_bytes : int
        Memory of the first GPU, and what no process holds of it.
    obstacle : str
        What `reason` says, as one word for programs: "hidden", "not_visible", "no_driver", "no_cuda", "no_gpu",
        "old_driver", "old_gpu", "no_function", "nvml_18" (an error of the driver); empty where the GPU is usable.
    """

    usable: bool
    reason: str
    count: int = 0
    name: str = ""
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    capability: tuple[int, int] = (0, 0)
    memory_bytes: int = 0
    free_bytes: int = 0
    obstacle: str = ""


class _Refusal(Exception):
    """The sentence that says why there is no usable GPU, and the word for it."""

    def __init__(self, sentence: str, obstacle: str) -> None:
        self.obstacle = obstacle
        super().__init__(sentence)


def probe_gpu() -> Gpu:
    """Return what is known about this machine's GPU; never raises.

    The environment variable ``GPUPIPE_FORCE_CPU`` hides the GPU from gpupipe, ``CUDA_VISIBLE_DEVICES`` from CUDA. GPUs
    are counted in the driver's order, which is CUDA's own order under ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` and wherever all
    GPUs are of one type.
    """
    return _ask(lambda nvml, visible: (_describe(nvml, visible[0], len(visible)),))[0]


def probe_gpus() -> tuple[Gpu, ...]:
    """Return each GPU that this process may use, as CUDA numbers them, or the one refusal that `probe_gpu` returns."""
    return _ask(lambda nvml, visible: tuple(_describe(nvml, index, count=1) for index in visible))


def missing_packages() -> tuple[str, ...]:
    """Return which of the packages that compute on a GPU are not installed; imports none of them."""
    return tuple(package for package in GPU_PACKAGES if find_spec(package) is None)


def missing_packages_reason(missing: tuple[str, ...]) -> str:
    """Return the sentence for `missing`, or ``""`` if nothing is."""
    if not missing:
        return ""
    verb = "is" if len(missing) == 1 else "are"
    return f"the GPU packages are incomplete: {', '.join(missing)} {verb} not installed"


def _ask(describe: Callable[[_Nvml, list[int]], tuple[Gpu, ...]]) -> tuple[Gpu, ...]:
    try:
        _refuse_if_hidden()
        nvml = _Nvml()
        try:
            return tuple(map(_judge, describe(nvml, _visible(nvml))))
        finally:
            nvml.close()
    except _Refusal as refusal:
        return (Gpu(usable=False, reason=str(refusal), obstacle=refusal.obstacle),)


def _refuse_if_hidden() -> None:
    if os.environ.get("GPUPIPE_FORCE_CPU", "") not in ("", "0"):
        raise _Refusal("GPUPIPE_FORCE_CPU is set", "hidden")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        raise _Refusal(f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU", "hidden")


def _open_library(name: str, refusal: str, obstacle: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError:
        raise _Refusal(f"{refusal}: {name} cannot be loaded", obstacle) from None


class _Nvml:
    """The few calls of NVIDIA's management library that the probe makes; each failure is a `_Refusal`."""

    def __init__(self) -> None:
        self._library = _open_library("libnvidia-ml.so.1", "no NVIDIA driver", "no_driver")
        without_cuda = "an NVIDIA driver without CUDA (in a container: start it with --gpus all)"
        _open_library("libcuda.so.1", without_cuda, "no_cuda")
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:
            sentence = f"the driver's management library has no function {function}"
            raise _Refusal(sentence, "no_function") from None
        if code != 0:
            meaning = NVML_ERRORS.get(code, "see nvidia-smi")
            raise _Refusal(f"the driver answers {function} with error {code}: {meaning}", f"nvml_{code}")

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
        """Return the bytes of the GPU, and those that are free."""
        total_free_used = (ctypes.c_ulonglong * 3)()
        self.call("nvmlDeviceGetMemoryInfo", handle, total_free_used)
        return int(total_free_used[0]), int(total_free_used[1])

    def driver(self) -> str:
        return self.text("nvmlSystemGetDriverVersion")


def _describe(nvml: _Nvml, index: int, count: int) -> Gpu:
    """Return every figure of one GPU, as one of `count`; whether they suffice is for `_judge` to say."""
    driver, handle = nvml.driver(), nvml.handle(index)
    name = nvml.text("nvmlDeviceGetName", handle)
    memory_bytes, free_bytes = nvml.memory(handle)
    return Gpu(
        usable=True,
        reason=f"{name}, driver {driver}" if count == 1 else f"{count} GPUs ({name}), driver {driver}",
        count=count,
        name=name,
        driver=driver,
        cuda=nvml.cuda_version(),
        capability=nvml.capability(handle),
        memory_bytes=memory_bytes,
        free_bytes=free_bytes,
    )


def _judge(gpu: Gpu) -> Gpu:
    """Return `gpu`, unusable if it or its driver is too old."""
    if gpu.cuda < MIN_CUDA:
        reason = f"the driver {gpu.driver} supports CUDA {_dotted(gpu.cuda)}; {_dotted(MIN_CUDA)} is needed"
        return replace(gpu, usable=False, reason=reason, obstacle="old_driver")
    if gpu.capability < MIN_CAPABILITY:
        has, needed = _dotted(gpu.capability), _dotted(MIN_CAPABILITY)
        reason = f"{gpu.name} has compute capability {has}; {needed} is needed"
        return replace(gpu, usable=False, reason=reason, obstacle="old_gpu")
    return gpu


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _visible(nvml: _Nvml) -> list[int]:
    """Return the driver's indices of the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; at least one."""
    installed = nvml.count()
    if installed == 0:
        raise _Refusal(f"the NVIDIA driver {nvml.driver()} finds no GPU", "no_gpu")
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return list(range(installed))
    visible: list[int] = []
    for entry in value.split(","):
        index = _index_of(entry.strip(), nvml, installed)
        if index is None:  # CUDA drops an entry that it cannot resolve, and all that follow
            break
        visible.append(index)
    if not visible:
        why = _why_none(value.split(",")[0].strip(), installed)
        raise _Refusal(f"CUDA_VISIBLE_DEVICES={value!r} {why}", "not_visible")
    return visible


def _index_of(entry: str, nvml: _Nvml, installed: int) -> int | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < installed else None
    if entry.startswith("GPU-"):  # CUDA takes any unambiguous beginning of the identifier
        matches = [index for index in range(installed) if nvml.uuid(index).startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    return None


def _why_none(entry: str, installed: int) -> str:
    if entry.startswith("MIG-"):
        return "names a slice of a GPU (MIG), which gpupipe does not understand: name a whole GPU"
    if entry.isdecimal() or entry.startswith("GPU-"):
        return f"names none of this machine's {installed} GPU{'s' if installed > 1 else ''}"
    return "is not understood: write numbers (0,1) or identifiers (GPU-…, from nvidia-smi -L)"
