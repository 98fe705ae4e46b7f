"""Checks of the CUDA compiler libraries: whether numba-cuda finds them, and whether the driver accepts their PTX.

Numba's CUDA compiler (libnvvm, from the wheels) writes PTX in the ISA version of its CUDA version. If nvJitLink is
installed in the driver's major version, it assembles the PTX, and the driver may be older than the compiler. Otherwise
the driver assembles it, and rejects PTX newer than its own version (CUDA_ERROR_UNSUPPORTED_PTX_VERSION). CuPy's
compiler produces machine code directly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from gpupipe.backends.probe import GpuProbe, dotted
from gpupipe.doctor.distributions import Distributions, suitable_major
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import run_in_child
from gpupipe_kernels.toolchain import export_command, find_toolkits, visibility_settings

CHECK = "CUDA libraries"
SEARCH = """
import json
from gpupipe_kernels.toolchain import find_libraries
found = find_libraries()
print()
print(json.dumps(found))
"""


def library_findings(
    installed: Distributions, gpu: GpuProbe, timeout_seconds: float, root: Path = Path("/")
) -> list[Finding]:
    """Return a finding on the libraries that compile kernels; none without a usable GPU and numba-cuda.

    An environment variable is suggested only if numba-cuda, run with it in a child process, finds every library.

    Parameters
    ----------
    root : Path
        The root folder of the machine.
    """
    if not gpu.usable or "numba-cuda" not in installed.versions:
        return []
    found = _search({}, timeout_seconds)
    if not found:  # numba-cuda cannot be imported, which `imports` reports
        return []
    missing = [name for name, path in found.items() if not path]
    if not missing:
        return [Finding("ok", CHECK, f"numba-cuda found {', '.join(found.values())}")]
    problem = f"numba-cuda cannot load {', '.join(missing)}, so no kernel can be compiled"
    for toolkit in find_toolkits(root):
        settings = visibility_settings(toolkit)
        again = _search(settings, timeout_seconds)
        if again and all(again.values()):
            return [Finding("error", CHECK, f"{problem}; it does not search {toolkit}", export_command(settings))]
    major = suitable_major(gpu, installed)
    return [
        Finding("error", CHECK, problem, f"pip install 'numba-cuda[cu{major}]=={installed.versions['numba-cuda']}'")
    ]


def _search(settings: Mapping[str, str], timeout_seconds: float) -> dict[str, str]:
    """Return library to path as numba-cuda finds them under these environment variables; empty if it fails."""
    failure, output = run_in_child(SEARCH, timeout_seconds, settings)
    if failure:
        return {}
    found: dict[str, str] = json.loads(output.strip().splitlines()[-1])
    return found


COMPILER_CHECK = "CUDA compiler"
# CUDA version → wheels that contain a compiler (for CUDA 12, libnvvm is in nvcc's), and the one with the assembler.
COMPILERS = {13: ("nvidia-nvvm", "nvidia-cuda-nvrtc"), 12: ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvrtc-cu12")}
ASSEMBLERS = {13: "nvidia-nvjitlink", 12: "nvidia-nvjitlink-cu12"}


def compiler_findings(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Return a finding for each CUDA version whose compiler wheels are installed."""
    if not gpu.usable or "numba-cuda" not in installed.versions:
        return []
    return [_compiler_finding(installed, gpu, major) for major in COMPILERS if _newest(installed, COMPILERS[major])]


def _compiler_finding(installed: Distributions, gpu: GpuProbe, major: int) -> Finding:
    name = _newest(installed, COMPILERS[major])
    compiler, assembler = _version(installed, name), _version(installed, ASSEMBLERS[major])
    written = f"{name} {dotted(compiler)} writes PTX"
    if assembler[0] == gpu.cuda[0]:
        return _by_assembler(written, compiler, assembler, ASSEMBLERS[major])
    if compiler <= gpu.cuda:
        return Finding("ok", COMPILER_CHECK, f"{written} that the driver (CUDA {dotted(gpu.cuda)}) accepts")
    found = f"{written} that the driver (CUDA {dotted(gpu.cuda)}) rejects: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    older = " ".join(f"'{wheel}=={gpu.cuda[0]}.{gpu.cuda[1]}.*'" for wheel in COMPILERS[major])
    if compiler[0] != gpu.cuda[0]:
        return Finding(
            "error", COMPILER_CHECK, found, "update the NVIDIA driver, or install wheels for the driver's CUDA version"
        )
    install = f"pip install '{ASSEMBLERS[major]}>={dotted(compiler)},<{major + 1}'"
    return Finding("error", COMPILER_CHECK, found, f"{install}, or install an older compiler: pip install {older}")


def _by_assembler(written: str, compiler: tuple[int, int], assembler: tuple[int, int], wheel: str) -> Finding:
    if assembler >= compiler:
        return Finding("ok", COMPILER_CHECK, f"{written} that {wheel} {dotted(assembler)} accepts")
    found = f"{written} that {wheel} {dotted(assembler)} rejects: Unsupported .version"
    return Finding("error", COMPILER_CHECK, found, f"pip install '{wheel}>={dotted(compiler)},<{compiler[0] + 1}'")


def _newest(installed: Distributions, names: tuple[str, ...]) -> str:
    """Return the one of `names` installed in the newest version; empty if none is installed."""
    return max(names, key=lambda name: _version(installed, name)) if any(n in installed.versions for n in names) else ""


def _version(installed: Distributions, name: str) -> tuple[int, int]:
    """Return the CUDA version of a wheel ((13, 5) for 13.5.37); (0, 0) if it is not installed."""
    match = re.match(r"(\d+)\.(\d+)", installed.versions.get(name, ""))
    return (int(match[1]), int(match[2])) if match else (0, 0)
