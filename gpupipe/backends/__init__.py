"""Choice of the backend of a run, made once and with a reason.

Neither importing this package nor probing the GPU imports a numerical library.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast, get_args

from gpupipe.backends import machine
from gpupipe.backends.base import DEFAULT_OPTIONS, Backend, DeviceOptions
from gpupipe.backends.machine import MemoryFigures
from gpupipe.backends.probe import (
    RAPIDS,
    GpuProbe,
    lacks_package,
    missing_packages,
    missing_packages_reason,
    probe_gpu,
)
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
    """The threads, memory and GPU of this machine, and the reason that the GPU cannot be used."""

    gpu: GpuProbe
    missing_packages: tuple[str, ...]  # packages that every run on a GPU needs and that are not installed
    gpu_obstacle: str  # the reason that a run cannot use the GPU, such as missing packages; empty if it can
    n_threads: int
    memory: MemoryFigures
    # Packages of RAPIDS that are not installed: work that needs one falls back to the CPU.
    missing_rapids: tuple[str, ...] = ()


def device_report() -> DeviceReport:
    """Return the device report of this machine, in about 1 ms."""
    gpu, missing = probe_gpu(), missing_packages()
    obstacle, rapids = _gpu_obstacle(gpu, missing), tuple(filter(lacks_package, RAPIDS))
    return DeviceReport(gpu, missing, obstacle, machine.n_threads(), machine.memory(), rapids)


def choose(device: str, options: DeviceOptions = DEFAULT_OPTIONS) -> Backend:
    """Return the backend for `device`: "auto", "cpu" or "gpu".

    auto is the GPU if it and its packages are available, else the CPU, with what is missing as its ``reason``. Raise
    ConfigError if `device` is another value; DeviceError if `device` is "gpu" and the GPU cannot be used.
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
        raise DeviceError(f"device: gpu, but the GPU cannot be used: {obstacle}", where="device: gpu", fix=_fix(gpu))
    return _create("cpu", obstacle, options)


def _gpu_obstacle(gpu: GpuProbe, missing: tuple[str, ...]) -> str:
    if not gpu.usable:
        return gpu.reason
    return missing_packages_reason(missing)


def _fix(gpu: GpuProbe) -> str:
    if not gpu.usable:
        return "run with --device auto or --device cpu, or fix the cause above"
    extra = "cuda13" if gpu.cuda >= (13, 0) and gpu.capability >= (7, 5) else "cuda12"
    small = f"'gpupipe[{extra}-lite]' without RAPIDS"
    return f"pip install 'gpupipe[{extra}]', or {small}, or run with --device auto or --device cpu"


def _create(name: str, *arguments: object) -> Backend:
    module, _, class_name = BACKENDS[name].partition(":")
    return cast(Backend, getattr(import_module(module), class_name)(*arguments))
