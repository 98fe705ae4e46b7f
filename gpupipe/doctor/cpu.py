"""CPU checks, which concern every run: libraries, threads, memory and the cache of compiled code."""

from __future__ import annotations

import os

from gpupipe.backends import machine
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.imports import try_imports
from gpupipe.errors import ConfigError
from gpupipe.units import GIB
from gpupipe_kernels.code_cache import PRIVATE_FOLDER, cache_folder, exposure

LIBRARIES = ("numpy", "pandas", "pyarrow", "sklearn", "numba")


def cpu_findings(timeout_seconds: float) -> list[Finding]:
    """Return the findings on libraries, threads, memory and the cache of compiled code."""
    return [_libraries(timeout_seconds), _threads(), *_openmp(), _memory(), _compiled_code()]


def _libraries(timeout_seconds: float) -> Finding:
    trial = try_imports(LIBRARIES, timeout_seconds)
    if trial.failure:
        fix = "pip install --force-reinstall gpupipe"
        return Finding("error", "CPU path", f"import failed: {trial.failure}", fix)
    return Finding("ok", "CPU path", f"complete: {', '.join(LIBRARIES)} can be imported")


def _threads() -> Finding:
    try:
        n_threads = machine.n_threads()
    except ConfigError as error:
        return Finding("error", "threads", error.what, error.fix)
    quota = machine.cpu_quota()
    limit = f" (this process is limited to {quota:g})" if quota is not None else ""
    return Finding("ok", "threads", f"{n_threads} of {os.cpu_count()} cores{limit}")


def _openmp() -> list[Finding]:
    """Check OMP_NUM_THREADS, which scikit-learn and XGBoost obey."""
    asked = os.environ.get("OMP_NUM_THREADS", "").strip()
    if not asked:
        return []
    first, n_cores = asked.split(",")[0].strip(), os.cpu_count() or 1
    if not first.isdecimal() or int(first) == 0:
        found = f"OMP_NUM_THREADS: expected a positive integer, found {asked!r}, which libraries ignore"
        return [Finding("warning", "OpenMP", found, "unset OMP_NUM_THREADS")]
    if int(first) > n_cores:
        found = f"OMP_NUM_THREADS={asked} exceeds the {n_cores} cores: threads compete for them"
        return [Finding("warning", "OpenMP", found, "unset OMP_NUM_THREADS")]
    return [Finding("ok", "OpenMP", f"OMP_NUM_THREADS={asked}")]


def _memory() -> Finding:
    memory = machine.memory()
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = f" (limit of this process; the machine has {whole / GIB:.1f} GiB)" if memory.total < whole else ""
    return Finding("ok", "memory", f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free{limit}")


def _compiled_code() -> Finding:
    """Check that compiled code can be cached; the first run that compiles creates the folder."""
    folder = cache_folder()
    if problem := exposure():
        found = f"not cached in {folder}, so every run recompiles: {problem}"
        return Finding("warning", "compiled code", found, PRIVATE_FOLDER)
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return Finding("ok", "compiled code", f"cached in {folder}")
    found = f"{folder} is not writable, so every run recompiles"
    return Finding(
        "warning",
        "compiled code",
        found,
        "export NUMBA_CACHE_DIR=~/.cache/numba, or another folder that you can write to",
    )
