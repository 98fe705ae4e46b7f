"""The CPU's side: what every run leans on, with a GPU or without."""

from __future__ import annotations

import os

from gpupipe.backends import machine
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.imports import try_imports
from gpupipe.errors import ConfigError
from gpupipe.units import GIB
from gpupipe_kernels.code_cache import PRIVATE_FOLDER, cache_folder, exposure

LIBRARIES = ("numpy", "pandas", "pyarrow", "sklearn", "numba", "skops")


def cpu_findings(timeout_seconds: float) -> list[Finding]:
    """Return what is to say of libraries, threads, memory and the folder of compiled code."""
    return [_libraries(timeout_seconds), _threads(), *_openmp(), _memory(), _compiled_code()]


def _libraries(timeout_seconds: float) -> Finding:
    trial = try_imports(LIBRARIES, timeout_seconds)
    if trial.failure:
        fix = "pip install --force-reinstall gpupipe"
        return Finding("error", "CPU path", f"a library does not import: {trial.failure}", fix)
    return Finding("ok", "CPU path", f"whole: {', '.join(LIBRARIES)} import")


def _threads() -> Finding:
    try:
        n_threads = machine.n_threads()
    except ConfigError as error:
        return Finding("error", "threads", error.what, error.fix)
    quota = machine.cpu_quota()
    limit = f" (a limit of {quota:g} is set for this process)" if quota is not None else ""
    return Finding("ok", "threads", f"{n_threads} of {os.cpu_count()} cores{limit}")


def _openmp() -> list[Finding]:
    """What OpenMP is told by hand: scikit-learn and XGBoost follow it."""
    asked = os.environ.get("OMP_NUM_THREADS", "").strip()
    if not asked:
        return []
    first, n_cores = asked.split(",")[0].strip(), os.cpu_count() or 1
    if not first.isdecimal() or int(first) == 0:
        found = f"OMP_NUM_THREADS={asked!r} is not a whole number above 0: libraries ignore it"
        return [Finding("warning", "OpenMP", found, "unset OMP_NUM_THREADS")]
    if int(first) > n_cores:
        found = f"OMP_NUM_THREADS={asked} on {n_cores} cores: threads take turns"
        return [Finding("warning", "OpenMP", found, "unset OMP_NUM_THREADS")]
    return [Finding("ok", "OpenMP", f"OMP_NUM_THREADS={asked}")]


def _memory() -> Finding:
    memory = machine.memory()
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = f", a limit: the machine has {whole / GIB:.1f}" if memory.total < whole else ""
    return Finding("ok", "memory", f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free{limit}")


def _compiled_code() -> Finding:
    """Report whether compiled code can be kept; the folder is made by the first run that compiles."""
    folder = cache_folder()
    if problem := exposure():
        found = f"is not kept in {folder}, every run compiles anew: {problem}"
        return Finding("warning", "compiled code", found, PRIVATE_FOLDER)
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return Finding("ok", "compiled code", f"is kept in {folder}")
    found = f"cannot be kept in {folder}: every run compiles anew"
    return Finding("warning", "compiled code", found, "export NUMBA_CACHE_DIR=~/.cache/numba, or any folder of yours")
