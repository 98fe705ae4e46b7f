"""Compilation of device code without a device: numba-cuda to PTX, ptxas to machine code.

ptxas is that of CUDA 12.9: its machine code runs with drivers of CUDA 12 and of CUDA 13, and it is the first release
that knows all architectures and the last of CUDA 12. A failed compilation can break the next one in the same process.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from gpupipe_kernels.device.compiler import compile_entry
from gpupipe_kernels.launch import DeviceLoop, array_formula
from gpupipe_kernels.toolchain import find_program

INSTALL = "pip install 'gpupipe[test-all]'"


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
    """Return the path of ptxas: from the wheel, or else from the system."""
    try:
        files = distribution("nvidia-cuda-nvcc-cu12").files or []
        return Path(str(next(file.locate() for file in files if file.name == "ptxas")))
    except (PackageNotFoundError, StopIteration):
        toolkit = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
        found = find_program("ptxas") or find_program("ptxas", toolkit)
        return Path(found) if found else None


@cache
def ptx_of(loop: DeviceLoop) -> dict[str, str]:
    """Return entry name to PTX, without headers, of every entry of a loop."""
    return {entry.name: compile_entry(loop.function, entry, array_formula) for entry in loop.entries.values()}


class Assembled(NamedTuple):
    """Machine code, and what ptxas reports of it."""

    cubin: bytes
    report: str


@cache
def assemble(ptx: str, architecture: str) -> Assembled:
    """Return the machine code of a module of PTX.

    Raise ValueError if ptxas is missing or fails; the message contains its output.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise ValueError("ptxas is not installed")
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "loops.cubin"
        command = [str(ptxas), "-v", f"-arch={architecture}", "-o", str(cubin), "-"]
        done = subprocess.run(command, input=ptx, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(f"ptxas fails for {architecture}: {done.stderr}")
        return Assembled(cubin.read_bytes(), done.stderr)
