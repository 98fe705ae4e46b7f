"""CUDA compiler libraries: those that numba-cuda finds, and toolkits on disk where it does not look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.extras import suitable_major
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import in_a_process
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
    """Return whether numba-cuda can load what compiles kernels; nothing without a usable GPU or without numba-cuda.

    A setting is proposed only if numba-cuda, tried with it in a child process, finds everything.

    Parameters
    ----------
    root : Path
        The root folder of the machine.
    """
    if not gpu.usable or "numba-cuda" not in installed.versions:
        return []
    found = _search({}, timeout_seconds)
    if not found:  # numba-cuda does not import, which has a finding of its own
        return []
    missing = [name for name, path in found.items() if not path]
    if not missing:
        return [Finding("ok", CHECK, f"numba-cuda loads {', '.join(found.values())}")]
    said = f"numba-cuda cannot load {', '.join(missing)}: no kernel can be compiled"
    for toolkit in find_toolkits(root):
        settings = visibility_settings(toolkit)
        again = _search(settings, timeout_seconds)
        if again and all(again.values()):
            return [Finding("error", CHECK, f"{said}; {toolkit} is not searched", export_command(settings))]
    major = suitable_major(gpu, installed)
    return [Finding("error", CHECK, said, f"pip install 'numba-cuda[cu{major}]=={installed.versions['numba-cuda']}'")]


def _search(settings: Mapping[str, str], timeout_seconds: float) -> dict[str, str]:
    """Return what numba-cuda finds with these environment variables set; nothing if it fails."""
    failure, output = in_a_process(SEARCH, timeout_seconds, settings)
    if failure:
        return {}
    found: dict[str, str] = json.loads(output.strip().splitlines()[-1])
    return found
