"""Location of the libraries that compile device code, including toolkits that numba-cuda does not search.

numba-cuda 0.30 uses cuda-pathfinder (checked: 1.9), which searches NVIDIA's wheels, conda, the system loader, and the
toolkit of ``CUDA_PATH`` or ``CUDA_HOME``, but not the folder of ``nvcc``. Without libnvvm no kernel compiles. Earlier
releases searched themselves and return None for a library that the system loader has to find.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

NVVM = ("libnvvm.so.4", "libnvvm.so")
TOOLKITS = ("usr/local/cuda", "usr/local/cuda-*", "opt/cuda", "opt/cuda-*", "usr/lib/cuda")
NVCC_SECONDS = 10.0
LOAD_ERRORS = (RuntimeError, OSError)  # pathfinder's errors for a library that is missing and one that does not load


def find_libraries() -> dict[str, str]:
    """Return the paths of libnvrtc, libnvvm and libdevice as numba-cuda loads them; ``""`` if it cannot.

    If a library is missing, the result lacks libdevice and includes libcudart, without which numba-cuda does not
    import. The libraries are loaded into this process.
    """
    try:
        from numba.cuda.cuda_paths import get_cuda_paths

        paths = get_cuda_paths()
    except LOAD_ERRORS:
        return {f"lib{name}": find_library(name) for name in ("cudart", "nvrtc", "nvvm")}
    found = {f"lib{name}": str(paths[name].info or find_library(name)) for name in ("nvrtc", "nvvm")}
    return {**found, "libdevice": str(paths["libdevice"].info or "")}


def find_library(name: str) -> str:
    """Return the path of a library of CUDA, such as ``"cublas"``, loaded into this process; ``""`` if there is none."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    try:
        return str(load_nvidia_dynamic_lib(name).abs_path)
    except LOAD_ERRORS:
        return ""


def find_program(name: str, path: str | None = None) -> str | None:
    """Return the absolute path of a program, or None.

    Parameters
    ----------
    path : str, optional
        The folders to search; ``PATH`` by default. Empty and relative entries refer to the current folder, which may
        contain untrusted files, and are skipped.
    """
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


def find_toolkits(root: Path = Path("/")) -> list[Path]:
    """Return the folders of the CUDA toolkits on disk that contain libnvvm, first the one of the ``nvcc`` on ``PATH``.

    Parameters
    ----------
    root : Path
        The root folder of the machine.
    """
    folders = chain.from_iterable(sorted(root.glob(pattern), reverse=True) for pattern in TOOLKITS)
    with_nvvm = [path.resolve() for path in (*_nvcc_toolkit(), *folders) if _nvvm_folder(path) is not None]
    return list(dict.fromkeys(with_nvvm))


def visibility_settings(toolkit: Path) -> dict[str, str]:
    """Return the environment variables that make numba-cuda find a toolkit returned by `find_toolkits`."""
    found = {"CUDA_HOME": str(toolkit)}
    if os.environ.get("CUDA_PATH"):  # it goes first
        found["CUDA_PATH"] = str(toolkit)
    folder = _nvvm_folder(toolkit)
    if folder != toolkit / "nvvm" / "lib64":  # a toolkit made of wheels: only the system loader finds it
        before = os.environ.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
    return found


def export_command(settings: Mapping[str, str]) -> str:
    """Return the shell command that sets environment variables."""
    return "export " + " ".join(f"{name}={value}" for name, value in settings.items())


def _nvvm_folder(toolkit: Path) -> Path | None:
    folders = (toolkit / "nvvm" / "lib64", toolkit / "lib64", toolkit / "lib")
    return next((folder for folder in folders if any((folder / name).is_file() for name in NVVM)), None)


def _nvcc_toolkit() -> list[Path]:
    """Return the toolkit reported by ``nvcc`` itself, because its path may be that of a wrapper script."""
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
