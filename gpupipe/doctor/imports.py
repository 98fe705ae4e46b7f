"""Imports of the GPU packages, each tried in a child process: an import can abort, hang or occupy the GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import (
    GPU_DISTRIBUTIONS,
    Distributions,
    install_asked,
    install_extra,
    replace_all,
    suitable_major,
)
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import in_a_process

AT_ONCE = 2  # processes: each reads hundreds of megabytes from disk
IMPORTED_AS = {"numba_cuda": "numba.cuda"}  # it takes the place of Numba's own module
# A run does this before it imports cuDF: what it repairs is not reported as broken. NumPy itself is checked elsewhere.
AS_IN_A_RUN = """
from contextlib import suppress
with suppress(Exception):
    from gpupipe_kernels.numpy_compat import restore_row_stack
    restore_row_stack()
"""
# What a package is built with, printed as JSON by the process that has imported it.
BUILT_WITH = {
    "xgboost": "bool(xgboost.build_info().get('USE_CUDA'))",
    "torch": "bool(torch.version.cuda)",
}


@dataclass(frozen=True)
class ImportTrial:
    """What importing came to.

    Attributes
    ----------
    failure : str
        Why it failed, in the library's own last words; empty if it did not.
    has_cuda : bool or None
        Whether the library is built with CUDA; None where it was not asked.
    """

    failure: str = ""
    has_cuda: bool | None = None


def import_findings(installed: Distributions, gpu: GpuProbe, timeout_seconds: float) -> list[Finding]:
    """Return a finding for each GPU package that is there, and one for what would keep all of them from working."""
    modules = [module for module in GPU_DISTRIBUTIONS if _is_there(module)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        trials = list(pool.map(lambda module: try_imports([module], timeout_seconds), modules))
    findings = [_finding(installed, gpu, module, trial) for module, trial in zip(modules, trials, strict=True)]
    return [*_simulator(installed), *findings]


def try_imports(modules: Sequence[str], timeout_seconds: float) -> ImportTrial:
    """Import `modules`, one after the other, in a process of their own."""
    failure, output = in_a_process(_code(modules), timeout_seconds)
    return ImportTrial(failure, None if failure else _has_cuda(output))


def _code(modules: Sequence[str]) -> str:
    imports = "; ".join(f"import {IMPORTED_AS.get(module, module)}" for module in modules)
    return f"{AS_IN_A_RUN}{imports}; import json; print(); print(json.dumps({BUILT_WITH.get(modules[-1])}))"


def _has_cuda(output: str) -> bool | None:
    """Return what the last line says; a library may print before it."""
    try:
        said = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    return said if isinstance(said, bool) else None


def _finding(installed: Distributions, gpu: GpuProbe, module: str, trial: ImportTrial) -> Finding:
    names = installed.of(module)
    versions = ", ".join(f"{name} {installed.versions[name]}" for name in names) or "of unknown version"
    if trial.failure:
        return Finding("error", module, f"{versions}; import fails: {trial.failure}", _reinstall(installed, gpu, names))
    if trial.has_cuda is False and gpu.usable and installed.has_gpu_packages():
        major = suitable_major(gpu, installed)
        fix = replace_all(names, install_asked(installed, major, module, module))
        return Finding("error", module, f"{versions}; imports, but is built without CUDA: it cannot use the GPU", fix)
    built = {True: ", built with CUDA", False: ", built without CUDA", None: ""}[trial.has_cuda]
    return Finding("ok", module, f"{versions}; imports{built}")


def _reinstall(installed: Distributions, gpu: GpuProbe, names: Sequence[str]) -> str:
    if not names:
        return install_extra(suitable_major(gpu, installed))
    wanted = " ".join(f"'{name}=={installed.versions[name]}'" for name in names[:1])
    return f"pip install --force-reinstall {wanted}"


def _simulator(installed: Distributions) -> list[Finding]:
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0") or not installed.has_gpu_packages():
        return []
    found = "NUMBA_ENABLE_CUDASIM is set: Numba simulates the GPU, and cuDF and cuML do not import"
    return [Finding("error", "simulator", found, "unset NUMBA_ENABLE_CUDASIM")]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # half a package: the import will say what is wrong
        return True
