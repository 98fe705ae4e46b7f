"""Checks of the GPU kernels: the shipped machine code, and the libraries that numba-cuda compiles with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpupipe.backends.probe import GpuProbe, dotted
from gpupipe.doctor.distributions import Distributions, suitable_major
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import evaluate_in_child
from gpupipe_kernels.device.binaries import BUILD, DeviceCodeError, file_for, is_ready
from gpupipe_kernels.toolchain import export_command, find_toolkits, visibility_settings

CHECK = "CUDA libraries"
SEARCH = "from gpupipe_kernels.toolchain import find_libraries"


def library_findings(
    installed: Distributions, gpu: GpuProbe, timeout_seconds: float, root: Path = Path("/")
) -> list[Finding]:
    """Return a finding on the libraries that compile kernels; none without a usable GPU and numba-cuda.

    An environment variable is suggested only if numba-cuda, run with it in a child process, finds every library. `root`
    is the root folder of the machine.
    """
    if not gpu.usable or "numba-cuda" not in installed.versions:
        return []
    found = _search({}, timeout_seconds)
    if not found:  # numba-cuda cannot be imported, which `imports` reports
        return []
    missing = [name for name, path in found.items() if not path]
    if not missing:
        return [Finding("ok", CHECK, f"numba-cuda found {', '.join(found.values())}")]
    problem = f"numba-cuda cannot load {', '.join(missing)}, so no user kernel can be compiled"
    for toolkit in find_toolkits(root):
        settings = visibility_settings(toolkit)
        again = _search(settings, timeout_seconds)
        if again and all(again.values()):
            return [Finding("warning", CHECK, f"{problem}; it does not search {toolkit}", export_command(settings))]
    major = suitable_major(gpu, installed)
    return [
        Finding("warning", CHECK, problem, f"pip install 'numba-cuda[cu{major}]=={installed.versions['numba-cuda']}'")
    ]


def _search(settings: Mapping[str, str], timeout_seconds: float) -> dict[str, str]:
    """Return library to path as numba-cuda finds them under these environment variables; empty if it fails."""
    _, found = evaluate_in_child(SEARCH, "find_libraries()", timeout_seconds, settings)
    return found or {}


KERNEL_CHECK = "GPU kernels"


def kernel_findings(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Return a finding on the machine code of the kernels; none without a usable GPU."""
    if not gpu.usable:
        return []
    has_compiler, chip = "numba-cuda" in installed.versions, f"compute capability {dotted(gpu.capability)}"
    try:
        if not is_ready(gpu.capability):
            found = "the sources are newer than the shipped machine code"
            if not has_compiler:
                return [Finding("error", KERNEL_CHECK, f"{found}, and numba-cuda is not installed", BUILD)]
            return [Finding("warning", KERNEL_CHECK, f"{found}: each kernel is compiled at its first launch", BUILD)]
    except DeviceCodeError as error:
        return [Finding("error", KERNEL_CHECK, error.what, error.fix)]
    found = f"shipped for {chip}: {file_for(gpu.capability)}"
    return [Finding("ok", KERNEL_CHECK, found if has_compiler else f"{found}; user kernels need numba-cuda")]
