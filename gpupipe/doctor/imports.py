"""Trial imports of the GPU packages, in child processes: an import can abort, hang or occupy the GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import (
    GPU_DISTRIBUTIONS,
    Distributions,
    install_extra,
    install_required,
    replace_all,
    suitable_major,
)
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.processes import evaluate_in_child

AT_ONCE = 2  # processes: each reads hundreds of megabytes from disk
IMPORTED_AS = {"numba_cuda": "numba.cuda"}  # replaces Numba's own module
# Runs apply this fix before they import cuDF, so the trial does too. `packages` checks the version of NumPy.
AS_IN_A_RUN = """
from contextlib import suppress
with suppress(Exception):
    from gpupipe_kernels.numpy_compat import restore_row_stack
    restore_row_stack()
"""
# Expressions for whether a package is built with CUDA.
BUILT_WITH = {
    "xgboost": "bool(xgboost.build_info().get('USE_CUDA'))",
    "torch": "bool(torch.version.cuda)",
}


@dataclass(frozen=True)
class ImportTrial:
    """Outcome of an import.

    `failure` is the last line of the error, empty if the import succeeded. `has_cuda` is None if unknown.
    """

    failure: str = ""
    has_cuda: bool | None = None


def import_findings(installed: Distributions, gpu: GpuProbe, timeout_seconds: float) -> list[Finding]:
    """Return a finding for each installed GPU package, and one if Numba's simulator is enabled."""
    modules = [module for module in GPU_DISTRIBUTIONS if _is_there(module)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        trials = list(pool.map(lambda module: try_imports([module], timeout_seconds), modules))
    findings = [_finding(installed, gpu, module, trial) for module, trial in zip(modules, trials, strict=True)]
    return [*_simulator(installed), *findings]


def try_imports(modules: Sequence[str], timeout_seconds: float) -> ImportTrial:
    """Import `modules`, one after the other, in a child process."""
    imports = "; ".join(f"import {IMPORTED_AS.get(module, module)}" for module in modules)
    has_cuda = BUILT_WITH.get(modules[-1], "None")
    return ImportTrial(*evaluate_in_child(AS_IN_A_RUN + imports, has_cuda, timeout_seconds))


def _finding(installed: Distributions, gpu: GpuProbe, module: str, trial: ImportTrial) -> Finding:
    names = installed.of(module)
    versions = ", ".join(f"{name} {installed.versions[name]}" for name in names) or "unknown version"
    if trial.failure:
        return Finding(
            "error", module, f"{versions}; import failed: {trial.failure}", _reinstall(installed, gpu, names)
        )
    if trial.has_cuda is False and gpu.usable and installed.has_gpu_packages():
        major = suitable_major(gpu, installed)
        fix = replace_all(names, install_required(installed, major, module, module))
        return Finding("error", module, f"{versions}; built without CUDA, so it cannot use the GPU", fix)
    built = {True: ", built with CUDA", False: ", built without CUDA", None: ""}[trial.has_cuda]
    return Finding("ok", module, f"{versions}; can be imported{built}")


def _reinstall(installed: Distributions, gpu: GpuProbe, names: Sequence[str]) -> str:
    if not names:
        return install_extra(suitable_major(gpu, installed))
    wanted = " ".join(f"'{name}=={installed.versions[name]}'" for name in names[:1])
    return f"pip install --force-reinstall {wanted}"


def _simulator(installed: Distributions) -> list[Finding]:
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0") or not installed.has_gpu_packages():
        return []
    found = "NUMBA_ENABLE_CUDASIM is set: Numba simulates the GPU, and cuDF and cuML cannot be imported"
    return [Finding("error", "simulator", found, "unset NUMBA_ENABLE_CUDASIM")]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a broken package: its import reports the error
        return True
