"""Libraries that compile device code: where numba-cuda finds them, and toolkits on disk where it does not look.

numba-cuda 0.30 asks cuda-pathfinder (checked: 1.9), which searches NVIDIA's wheels, conda, the system's loader, and the
toolkit of ``CUDA_PATH`` or ``CUDA_HOME``; never the folder of ``nvcc``. Without libnvvm no kernel compiles. Releases
before it had a search of their own, whose paths are absent (None) where the system's loader is left to find a library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

NVVM = ("libnvvm.so.4", "libnvvm.so")
TOOLKITS = ("usr/local/cuda", "usr/local/cuda-*", "opt/cuda", "opt/cuda-*", "usr/lib/cuda")
NVCC_SECONDS = 10.0
LOAD_ERRORS = (RuntimeError, OSError)  # pathfinder's own for what it does not find, and for what it cannot load


def find_libraries() -> dict[str, str]:
    """Return the paths of libnvrtc, libnvvm and libdevice as numba-cuda loads them; ``""`` where it cannot.

    Where it stops at a library that is missing, libdevice is absent from the result, and libcudart, without which it
    does not import, is part of it. The libraries are loaded into this process.
    """
    try:
        from numba.cuda.cuda_paths import get_cuda_paths

        paths = get_cuda_paths()
    except LOAD_ERRORS:
        return {f"lib{name}": _load(name) for name in ("cudart", "nvrtc", "nvvm")}
    found = {f"lib{name}": str(paths[name].info or _load(name)) for name in ("nvrtc", "nvvm")}
    return {**found, "libdevice": str(paths["libdevice"].info or "")}


def find_program(name: str, path: str | None = None) -> str | None:
    """Return the absolute path of a program, or None.

    Parameters
    ----------
    name : str
    path : str, optional
        The folders to search, ``PATH`` unless given. Empty and relative entries, which mean the current folder or one
        below it, are skipped: it may hold untrusted files.
    """
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


def find_toolkits(root: Path = Path("/")) -> list[Path]:
    """Return the folders of CUDA toolkits on disk that have libnvvm, that of the ``nvcc`` on ``PATH`` first.

    Parameters
    ----------
    root : Path
        The root folder of the machine.
    """
    folders = [path for pattern in TOOLKITS for path in sorted(root.glob(pattern), reverse=True)]
    with_nvvm = [path.resolve() for path in (*_nvcc_toolkit(), *folders) if _nvvm_folder(path) is not None]
    return list(dict.fromkeys(with_nvvm))


def visibility_settings(toolkit: Path) -> dict[str, str]:
    """Return the environment variables with which numba-cuda finds the libraries of a toolkit of `find_toolkits`."""
    found = {"CUDA_HOME": str(toolkit)}
    if os.environ.get("CUDA_PATH"):  # it goes first
        found["CUDA_PATH"] = str(toolkit)
    folder = _nvvm_folder(toolkit)
    if folder != toolkit / "nvvm" / "lib64":  # a toolkit made of wheels: only the system's loader finds it there
        before = os.environ.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
    return found


def export_command(settings: Mapping[str, str]) -> str:
    """Return the shell command that sets environment variables."""
    return "export " + " ".join(f"{name}={value}" for name, value in settings.items())


def _load(name: str) -> str:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return str(load_nvidia_dynamic_lib(name).abs_path)
    except LOAD_ERRORS:
        return ""


def _nvvm_folder(toolkit: Path) -> Path | None:
    folders = (toolkit / "nvvm" / "lib64", toolkit / "lib64", toolkit / "lib")
    return next((folder for folder in folders if any((folder / name).is_file() for name in NVVM)), None)


def _nvcc_toolkit() -> list[Path]:
    """Return the toolkit that ``nvcc`` itself names: its own path may be that of a script elsewhere."""
    nvcc = find_program("nvcc")
    if nvcc is None:
        return []
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NVCC_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    match = re.search(r"^#\$ TOP=(.+)$", done.stderr, re.MULTILINE)
    return [Path(match[1].strip())] if match else []
