"""Choice of the backend of a run: made once, with the reason in words.

Importing this package imports no library that computes; asking about the GPU imports none either.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast, get_args

from gpupipe.backends import machine
from gpupipe.backends.base import DEFAULT_OPTIONS, Backend, DeviceOptions
from gpupipe.backends.machine import MemoryFigures
from gpupipe.backends.probe import GpuProbe, missing_packages, missing_packages_reason, probe_gpu
from gpupipe.errors import ConfigError, DeviceError

__all__ = [
    "BACKENDS", "Backend", "Device", "DeviceOptions", "DeviceReport", "GpuProbe", "MemoryFigures", "choose",
    "device_report",
]  # fmt: skip

Device = Literal["auto", "cpu", "gpu"]

# name → "module:class", imported when chosen
BACKENDS: dict[str, str] = {
    "cpu": "gpupipe.backends.cpu.backend:CpuBackend",
    "gpu": "gpupipe.backends.gpu.backend:GpuBackend",
}


@dataclass(frozen=True)
class DeviceReport:
    """What this machine offers, and why its GPU would or would not be used.

    Attributes
    ----------
    gpu : GpuProbe
        What the driver says.
    missing_packages : tuple of str
        GPU packages that are not installed.
    gpu_obstacle : str
        Why a run cannot use the GPU: none that is usable, or packages missing. Empty if it can.
    n_threads : int
    memory : MemoryFigures
        Host figures, in bytes.
    """

    gpu: GpuProbe
    missing_packages: tuple[str, ...]
    gpu_obstacle: str
    n_threads: int
    memory: MemoryFigures


def device_report() -> DeviceReport:
    """Return what this machine offers, in about a millisecond."""
    gpu, missing = probe_gpu(), missing_packages()
    return DeviceReport(gpu, missing, _gpu_obstacle(gpu, missing), machine.n_threads(), machine.memory())


def choose(device: str, options: DeviceOptions = DEFAULT_OPTIONS) -> Backend:
    """Return the backend for `device`.

    Parameters
    ----------
    device : {"auto", "cpu", "gpu"}
        auto: the GPU if it, its packages and its backend are there, else the CPU, whose ``reason`` then says what is
        missing.
    options : DeviceOptions
        How a GPU is to be used, and how much of the host.

    Raises
    ------
    ConfigError
        If `device` is none of the three.
    DeviceError
        If "gpu" is demanded and cannot be had.
    """
    if device not in get_args(Device):
        raise ConfigError(f"unknown device {device!r}", fix=f"one of {', '.join(get_args(Device))}")
    if device == "cpu":
        return _create("cpu", "asked for", options)
    gpu, missing = probe_gpu(), missing_packages()
    obstacle = _gpu_obstacle(gpu, missing)
    if not obstacle:
        return _create("gpu", gpu.reason, options)
    if device == "gpu":
        raise DeviceError(f"the GPU was asked for and cannot be used: {obstacle}", where="device: gpu", fix=_fix(gpu))
    return _create("cpu", obstacle, options)


def _gpu_obstacle(gpu: GpuProbe, missing: tuple[str, ...]) -> str:
    if not gpu.usable:
        return gpu.reason
    return missing_packages_reason(missing)


def _fix(gpu: GpuProbe) -> str:
    if not gpu.usable:
        return "run with --device auto or --device cpu, or mend what is named above"
    extra = "cuda13" if gpu.cuda >= (13, 0) and gpu.capability >= (7, 5) else "cuda12"
    return f"pip install 'gpupipe[{extra}]', or run with --device auto or --device cpu"


def _create(name: str, *arguments: object) -> Backend:
    module, _, class_name = BACKENDS[name].partition(":")
    return cast(Backend, getattr(import_module(module), class_name)(*arguments))
