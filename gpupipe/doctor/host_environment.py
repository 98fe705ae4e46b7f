"""Environment of this process: a container, Windows' Linux, a machine with NVIDIA hardware.

It is read from files, which exist even without a driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # graphics, and computing cards without an output
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = ("docker", "kubepods", "containerd", "lxc", "libpod")
WSL_LIBRARIES = Path("usr/lib/wsl/lib")


@dataclass(frozen=True)
class HostEnvironment:
    """The container, virtual machine and hardware that this process runs on.

    Attributes
    ----------
    in_container, in_wsl : bool
    has_wsl_gpu : bool
        Windows hands a GPU of any maker through (``/dev/dxg``).
    has_wsl_driver : bool
        Windows hands NVIDIA's driver libraries through.
    nvidia_sign : str
        What shows that the machine has an NVIDIA GPU, whoever may use it; empty where nothing does.
    """

    in_container: bool = False
    in_wsl: bool = False
    has_wsl_gpu: bool = False
    has_wsl_driver: bool = False
    nvidia_sign: str = ""


def read_host_environment(root: Path = Path("/")) -> HostEnvironment:
    """Return what the files below `root` say."""
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
