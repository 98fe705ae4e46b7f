"""Detection of a usable NVIDIA GPU and of the packages that use it.

``import cudf`` succeeds on a machine without a GPU. NVML, the driver's management library, is called through ctypes in
a fraction of a millisecond. CUDA is opened but not initialised (a process that has initialised it can no longer fork
GPU workers), and no GPU package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ctypes import c_void_p
from dataclasses import dataclass, replace
from importlib.util import find_spec

from gpupipe.backends.nvml import Nvml, NvmlError, visible_gpus

MIN_CUDA = (12, 0)  # of the extras for CUDA 12
MIN_CAPABILITY = (7, 5)  # of the kernels' machine code: `gpupipe_kernels.device.binaries`

GPU_PACKAGES = ("cupy",)  # needed by every run on a GPU; numba-cuda only compiles users' kernels
# Needed by parts of it: the readers of files on the device, estimators of cuML, and allocators other than the driver's.
RAPIDS = ("cudf", "cuml", "rmm")
INSTALL_RAPIDS = "pip install 'gpupipe[cuda13]' ('gpupipe[cuda12]' for a driver of CUDA 12)"


@dataclass(frozen=True)
class GpuProbe:
    """Description of this machine's GPU by the driver."""

    usable: bool
    reason: str  # the GPU found, or the reason that it cannot be used
    count: int = 0  # number of GPUs that this process may use, within ``CUDA_VISIBLE_DEVICES``
    # `name`, `driver`: name and driver version of the first GPU: ``"NVIDIA H100"``, ``"580.95.05"``
    name: str = ""
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)  # the highest CUDA version that the driver supports
    capability: tuple[int, int] = (0, 0)  # compute capability of the first GPU
    # `memory_bytes`, `free_bytes`: total and free memory of the first GPU
    memory_bytes: int = 0
    free_bytes: int = 0
    # `reason` as one word for programs: "hidden", "not_visible", "no_driver", "no_cuda", "no_gpu", "old_driver",
    # "old_gpu", "no_function", "nvml_18" (an error of the driver); empty where the GPU is usable
    obstacle: str = ""


def probe_gpu() -> GpuProbe:
    """Return the probe of this machine's GPU; never raises.

    The environment variable ``GPUPIPE_FORCE_CPU`` hides the GPU from gpupipe, ``CUDA_VISIBLE_DEVICES`` from CUDA. GPUs
    are counted in the driver's order, which is CUDA's own order under ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` and if all
    GPUs have the same type.
    """
    return _ask(lambda nvml, visible: (_describe(nvml, visible[0], len(visible)),))[0]


def probe_gpus() -> tuple[GpuProbe, ...]:
    """Return the GPUs that this process may use, in CUDA's order, or the single failed probe of `probe_gpu`."""
    return _ask(lambda nvml, visible: tuple(_describe(nvml, handle, count=1) for handle in visible))


def missing_packages(packages: Iterable[str] = GPU_PACKAGES) -> tuple[str, ...]:
    """Return the packages that are not installed, without importing any."""
    return tuple(package for package in packages if find_spec(package) is None)


def lacks_package(library: str) -> bool:
    """Return whether a library is a package of RAPIDS that is not installed."""
    return library in RAPIDS and find_spec(library) is None


def lacks_nothing(library: str) -> bool:
    """Return False: of a machine where everything is installed."""
    return False


def missing_packages_reason(missing: tuple[str, ...]) -> str:
    """Return the sentence for `missing`, or ``""`` if nothing is."""
    if not missing:
        return ""
    verb = "is" if len(missing) == 1 else "are"
    return f"the GPU packages are incomplete: {', '.join(missing)} {verb} not installed"


def _ask(describe: Callable[[Nvml, list[c_void_p]], tuple[GpuProbe, ...]]) -> tuple[GpuProbe, ...]:
    try:
        nvml = Nvml()
        try:
            return tuple(map(_judge, describe(nvml, visible_gpus(nvml))))
        finally:
            nvml.close()
    except NvmlError as refusal:
        return (GpuProbe(usable=False, reason=str(refusal), obstacle=refusal.obstacle),)


def _describe(nvml: Nvml, handle: c_void_p, count: int) -> GpuProbe:
    """Return the figures of one of `count` GPUs or slices, not yet checked."""
    driver = nvml.driver()
    name = nvml.text("nvmlDeviceGetName", handle)
    memory_bytes, free_bytes = nvml.memory(handle)
    return GpuProbe(
        usable=True,
        reason=f"{name}, driver {driver}" if count == 1 else f"{count} GPUs ({name}), driver {driver}",
        count=count,
        name=name,
        driver=driver,
        cuda=nvml.cuda_version(),
        capability=nvml.capability(nvml.whole_gpu(handle)),
        memory_bytes=memory_bytes,
        free_bytes=free_bytes,
    )


def _judge(gpu: GpuProbe) -> GpuProbe:
    """Return `gpu`, unusable if it or its driver is too old."""
    if gpu.cuda < MIN_CUDA:
        reason = f"the driver {gpu.driver} supports CUDA {dotted(gpu.cuda)}; {dotted(MIN_CUDA)} is needed"
        return replace(gpu, usable=False, reason=reason, obstacle="old_driver")
    if gpu.capability < MIN_CAPABILITY:
        has, needed = dotted(gpu.capability), dotted(MIN_CAPABILITY)
        reason = f"{gpu.name} has compute capability {has}; {needed} is needed"
        return replace(gpu, usable=False, reason=reason, obstacle="old_gpu")
    return gpu


def dotted(version: tuple[int, int]) -> str:
    """Return a version as text: ``12.2``."""
    return f"{version[0]}.{version[1]}"
