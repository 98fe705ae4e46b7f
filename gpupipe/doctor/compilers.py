"""Whether what Numba compiles can be loaded: PTX newer than what reads it.

Numba's CUDA compiler (libnvvm, from the wheels) writes PTX in the dialect of its own CUDA version. nvJitLink assembles
it where it is installed and of the driver's major version, so the driver may be older than the compiler; without it
the driver assembles, and refuses a dialect newer than its own (CUDA_ERROR_UNSUPPORTED_PTX_VERSION). CuPy's compiler
assembles by itself.
"""

from __future__ import annotations

import re

from gpupipe.backends.probe import GpuProbe, dotted
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.finding import Finding

CHECK = "CUDA compiler"
# By CUDA version: the wheels that hold a compiler (those of CUDA 12 have libnvvm in nvcc's), and the assembler.
COMPILERS = {13: ("nvidia-nvvm", "nvidia-cuda-nvrtc"), 12: ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc-cu12")}
ASSEMBLERS = {13: "nvidia-nvjitlink", 12: "nvidia-nvjitlink-cu12"}


def compiler_findings(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Return a finding for each CUDA version whose compiler wheels are there and read by this machine's driver."""
    if not gpu.usable or "numba-cuda" not in installed.versions:
        return []
    return [_finding(installed, gpu, major) for major in COMPILERS if _newest(installed, COMPILERS[major])]


def _finding(installed: Distributions, gpu: GpuProbe, major: int) -> Finding:
    name = _newest(installed, COMPILERS[major])
    compiler, assembler = _version(installed, name), _version(installed, ASSEMBLERS[major])
    written = f"{name} {dotted(compiler)} writes PTX"
    if assembler[0] == gpu.cuda[0]:
        return _by_assembler(written, compiler, assembler, ASSEMBLERS[major])
    if compiler <= gpu.cuda:
        return Finding("ok", CHECK, f"{written} that the driver (CUDA {dotted(gpu.cuda)}) reads")
    found = f"{written} that the driver (CUDA {dotted(gpu.cuda)}) refuses: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    older = " ".join(f"'{wheel}=={gpu.cuda[0]}.{gpu.cuda[1]}.*'" for wheel in COMPILERS[major])
    if compiler[0] != gpu.cuda[0]:
        return Finding("error", CHECK, found, "update the NVIDIA driver, or install the wheels of the driver's CUDA")
    install = f"pip install '{ASSEMBLERS[major]}>={dotted(compiler)},<{major + 1}'"
    return Finding("error", CHECK, found, f"{install}, or an older compiler: pip install {older}")


def _by_assembler(written: str, compiler: tuple[int, int], assembler: tuple[int, int], wheel: str) -> Finding:
    if assembler >= compiler:
        return Finding("ok", CHECK, f"{written} that {wheel} {dotted(assembler)} assembles")
    found = f"{written} that {wheel} {dotted(assembler)} refuses: Unsupported .version"
    return Finding("error", CHECK, found, f"pip install '{wheel}>={dotted(compiler)},<{compiler[0] + 1}'")


def _newest(installed: Distributions, names: tuple[str, ...]) -> str:
    """Return which of `names` is installed in the newest version; empty if none is."""
    return max(names, key=lambda name: _version(installed, name)) if any(n in installed.versions for n in names) else ""


def _version(installed: Distributions, name: str) -> tuple[int, int]:
    """Return the CUDA version of a wheel (13.5.37: CUDA 13.5); (0, 0) where it is not installed."""
    match = re.match(r"(\d+)\.(\d+)", installed.versions.get(name, ""))
    return (int(match[1]), int(match[2])) if match else (0, 0)
