"""Checks of the NVIDIA driver: installed, complete, new enough for the wheels and accessible to this process.

The environment of the process (container, WSL, NVIDIA hardware) is read from files that exist even without a driver.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import MIN_CUDA13, Distributions, install_extra, replace_all
from gpupipe.doctor.finding import Finding

NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # display controllers and compute cards
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = ("docker", "kubepods", "containerd", "lxc", "libpod")
WSL_LIBRARIES = Path("usr/lib/wsl/lib")


@dataclass(frozen=True)
class HostEnvironment:
    """Container, WSL and hardware that this process runs on.

    - `has_wsl_gpu`: WSL exposes a GPU of any vendor (``/dev/dxg``).
    - `has_wsl_driver`: WSL exposes NVIDIA's driver libraries.
    - `nvidia_sign`: evidence that the machine has an NVIDIA GPU, whether or not this process can use it; else
      empty.
    """

    in_container: bool = False
    in_wsl: bool = False
    has_wsl_gpu: bool = False
    has_wsl_driver: bool = False
    nvidia_sign: str = ""


def read_host_environment(root: Path = Path("/")) -> HostEnvironment:
    """Return the environment, read from files under `root`."""
    return HostEnvironment(
        in_container=_in_container(root),
        in_wsl="microsoft" in _read(root / "proc/version").lower(),
        has_wsl_gpu=(root / "dev/dxg").exists(),
        has_wsl_driver=(root / WSL_LIBRARIES / "libcuda.so.1").exists(),
        nvidia_sign=_nvidia_sign(root),
    )


def _in_container(root: Path) -> bool:
    if any((root / name).exists() for name in CONTAINER_FILES):
        return True
    cgroups = _read(root / "proc/1/cgroup")
    return any(word in cgroups for word in CONTAINER_WORDS)


def _nvidia_sign(root: Path) -> str:
    if (root / "proc/driver/nvidia/version").exists():
        return "its kernel driver is loaded (/proc/driver/nvidia)"
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _read(device / "vendor") == NVIDIA_VENDOR and _read(device / "class").startswith(DISPLAY_CLASSES):
            return f"it is PCI device {device.name}"
    return ""


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


CHECK = "NVIDIA driver"
WITH_GPUS = "start the container with GPU access: docker run --gpus all … (requires the NVIDIA Container Toolkit)"
WSL_PATH = f"export LD_LIBRARY_PATH=/{WSL_LIBRARIES}:$LD_LIBRARY_PATH"
WSL_DRIVER = "install NVIDIA's driver on Windows, not inside WSL; then run wsl --shutdown and reopen WSL"
# First drivers that support CUDA 12 and CUDA 13, from NVIDIA's CUDA compatibility table.
DRIVER_12, DRIVER_13 = 525, 580

NVML_FIXES = {
    "nvml_3": f"install NVIDIA driver {DRIVER_13} or newer",
    "nvml_4": "run as a user with access to /dev/nvidia* (see ls -l /dev/nvidia*), in a container with --gpus all",
    "nvml_8": "connect the GPU's power cables and restart the machine",
    "nvml_9": "sudo modprobe nvidia; if that fails, reinstall the driver for the running kernel (uname -r)",
    "nvml_12": "reinstall the NVIDIA driver",
    "nvml_15": "restart the machine; if it happens again, check sudo dmesg | grep -i xid",
    "nvml_18": "restart the machine (for a container, its host): the driver was updated, its kernel module was not",
}


def driver_findings(gpu: GpuProbe, around: HostEnvironment, installed: Distributions) -> list[Finding]:
    """Return the findings on the driver, given the probe of the first GPU."""
    if gpu.usable or gpu.obstacle == "old_gpu":
        return [_driver_finding(gpu, installed)]
    if gpu.obstacle == "hidden":
        return [_hidden_gpu(gpu, around)]
    if gpu.obstacle == "no_driver":
        return [_no_driver(gpu, around, installed)]
    return [Finding("error", CHECK, gpu.reason, _fix(gpu, around))]


def _driver_finding(gpu: GpuProbe, installed: Distributions) -> Finding:
    found = f"{gpu.driver}, supports CUDA up to {gpu.cuda[0]}.{gpu.cuda[1]}"
    wheels = installed.cuda_majors().get(13, [])
    if gpu.cuda >= MIN_CUDA13 or not wheels:
        return Finding("ok", CHECK, found)
    found = f"{found}: too old for the installed CUDA 13 wheels ({', '.join(wheels)})"
    other = replace_all(wheels, install_extra(12))
    return Finding("error", CHECK, found, f"install NVIDIA driver {DRIVER_13} or newer, or: {other}")


def _hidden_gpu(gpu: GpuProbe, around: HostEnvironment) -> Finding:
    """Report a GPU hidden by a setting: not an error, but a warning in case the setting was forgotten."""
    if not around.nvidia_sign:
        return Finding("ok", CHECK, f"not checked: {gpu.reason}")
    found = f"{gpu.reason}; the machine has an NVIDIA GPU: {around.nvidia_sign}"
    variable = "GPUPIPE_FORCE_CPU" if "FORCE_CPU" in gpu.reason else "CUDA_VISIBLE_DEVICES"
    return Finding("warning", CHECK, found, f"to use the GPU: unset {variable}")


def _no_driver(gpu: GpuProbe, around: HostEnvironment, installed: Distributions) -> Finding:
    if around.in_wsl:
        return _no_driver_in_wsl(gpu, around, installed)
    if around.nvidia_sign:
        found = f"{gpu.reason}, but the machine has an NVIDIA GPU: {around.nvidia_sign}"
        return Finding("error", CHECK, found, WITH_GPUS if around.in_container else _install_driver())
    if not installed.has_gpu_packages():
        return Finding("ok", CHECK, f"{gpu.reason}; no NVIDIA GPU detected, and none is required")
    found = f"{gpu.reason}; GPU packages are installed, but no NVIDIA GPU was detected"
    return Finding("warning", CHECK, found, f"to use a GPU: {_gpu_access(around)}")


def _no_driver_in_wsl(gpu: GpuProbe, around: HostEnvironment, installed: Distributions) -> Finding:
    if around.has_wsl_driver:
        return Finding("error", CHECK, f"{gpu.reason}; WSL provides it in /{WSL_LIBRARIES}", WSL_PATH)
    if around.has_wsl_gpu:
        found = f"{gpu.reason}; WSL 2 exposes a GPU (/dev/dxg), but no NVIDIA driver"
        return Finding("warning", CHECK, found, f"{WSL_DRIVER} (if it is an NVIDIA GPU)")
    found = f"{gpu.reason}; this is WSL without a GPU (no /dev/dxg)"
    if not installed.has_gpu_packages():
        return Finding("ok", CHECK, found)
    return Finding("warning", CHECK, found, "in Windows, run wsl --update and wsl --set-version DISTRIBUTION 2")


def _fix(gpu: GpuProbe, around: HostEnvironment) -> str:
    match gpu.obstacle:
        case "no_cuda" if around.in_container:
            return f"{WITH_GPUS}, with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        case "no_cuda" if around.in_wsl:
            return WSL_PATH
        case "no_cuda":
            return "reinstall the NVIDIA driver with its compute libraries, which include libcuda.so.1"
        case "no_gpu":
            return (
                _gpu_access(around)
                if around.in_container
                else "restart the machine; if that does not help, check sudo dmesg | grep NVRM"
            )
        case "not_visible":
            value = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            return f"unset CUDA_VISIBLE_DEVICES (now {value!r}), or set it to a GPU listed by nvidia-smi -L, such as 0"
        case "old_driver" | "no_function":
            return f"install NVIDIA driver {DRIVER_12} or newer ({DRIVER_13} for CUDA 13 wheels)"
    return NVML_FIXES.get(gpu.obstacle, "run nvidia-smi for details, then restart the machine")


def _gpu_access(around: HostEnvironment) -> str:
    return WITH_GPUS if around.in_container else f"run on a machine with an NVIDIA GPU and driver {DRIVER_12} or newer"


def _install_driver() -> str:
    return f"install NVIDIA driver {DRIVER_13} or newer (Ubuntu: sudo ubuntu-drivers install) and restart the machine"
