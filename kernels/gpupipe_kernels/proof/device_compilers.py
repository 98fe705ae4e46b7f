"""Compilation of device code without a device: numba-cuda to PTX, ptxas to machine code.

Numba queries the current GPU as soon as a loop calls another device function; this module passes an architecture
instead. A failed compilation can break the next one in the same process.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.proof.occupancy import MULTIPROCESSORS
from gpupipe_kernels.toolchain import find_program

ARCHITECTURES = tuple(MULTIPROCESSORS)
INSTALL = "pip install 'gpupipe[test]'"


def compiler_versions() -> dict[str, str]:
    """Return the versions of everything that affects the result, with a hash of libnvvm, whose releases differ."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    said = subprocess.run([str(find_ptxas()), "--version"], capture_output=True, text=True, check=True).stdout
    found = {"ptxas": re.findall(r"V([\d.]+)", said)[-1]}
    found |= {package: version(package) for package in ("numba", "numba-cuda", "llvmlite")}
    library = Path(str(load_nvidia_dynamic_lib("nvvm").abs_path))
    found["libnvvm"] = hashlib.sha256(library.read_bytes()).hexdigest()[:16]
    return found


def missing_compiler() -> str:
    """Return a description of the missing compiler, or ``""`` if none is missing."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed"
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for library in ("nvrtc", "nvvm"):
        try:
            load_nvidia_dynamic_lib(library)
        except DynamicLibNotFoundError:
            return f"NVIDIA's {library} is not installed"
    return "" if find_ptxas() else "NVIDIA's ptxas is not installed"


def find_ptxas() -> Path | None:
    """Return the path of ptxas: from the wheel, which matches the other compilers, or else from the system."""
    try:
        files = distribution("nvidia-cuda-nvcc").files or []
        return Path(str(next(file.locate() for file in files if file.name == "ptxas")))
    except (PackageNotFoundError, StopIteration):
        toolkit = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
        found = find_program("ptxas") or find_program("ptxas", toolkit)
        return Path(found) if found else None


@cache
def ptx_of(loop: DeviceLoop, architectures: Sequence[str] = ARCHITECTURES) -> dict[str, str]:
    """Return the PTX for each architecture; only the last, cheap compilation step differs."""
    from numba import cuda
    from numba.cuda import compiler, dispatcher

    first = _capability(architectures[0])
    made = []

    def compile_and_remember(*arguments: Any, **options: Any) -> Any:
        made.append(compile_cuda(*arguments, **options))
        return made[-1]

    compile_cuda, device = compiler.compile_cuda, SimpleNamespace(compute_capability=first)
    with (
        mock.patch.object(compiler, "compile_cuda", compile_and_remember),
        mock.patch.object(dispatcher, "get_current_device", lambda: device),
    ):
        try:
            cuda.compile_ptx(loop.function, f"void({', '.join(loop.arguments)})", cc=first)
        except Exception as error:
            raise ValueError(f"{loop.name} does not compile for a device: {type(error).__name__}: {error}") from error
    return {a: made[-1].library.get_asm_str(cc=_capability(a)) for a in architectures}


def _capability(architecture: str) -> tuple[int, int]:
    number = int(architecture.removeprefix("sm_"))
    return number // 10, number % 10
