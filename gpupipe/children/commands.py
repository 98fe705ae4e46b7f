"""Commands and environments of child Python processes, without the current folder on their import path."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

# Variables that configure Python, its libraries and gpupipe; any other variable may be a secret.
PUBLIC_NAMES = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME"}
PUBLIC_PREFIXES = (
    "LC_", "LD_", "DYLD_", "PYTHON", "OMP_", "KMP_", "GOMP_", "OPENBLAS_", "MKL_", "BLIS_", "VECLIB_", "NUMBA_",
    "CUDA_", "NVIDIA_", "MALLOC_", "GLIBC_", "ARROW_", "GPUPIPE_CACHE", "GPUPIPE_FORCE_CPU", "GPUPIPE_THREADS",
)  # fmt: skip


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs this Python without importing from the current folder.

    Use it with `child_environment`.

    Examples
    --------
    >>> python_command("-m", "gpupipe.models.neural.ranks.local")[1:]
    ['-P', '-m', 'gpupipe.models.neural.ranks.local']
    """
    return [sys.executable, "-P", *arguments]


def script_command(script: str | os.PathLike[str], *arguments: str) -> list[str]:
    """Return the command that runs a user's script, which may import from its own folder.

    Use it with `script_environment`.
    """
    return [sys.executable, os.fspath(script), *arguments]


def script_environment() -> dict[str, str]:
    """Return the environment of a user's script, without the import restrictions of gpupipe's own child processes."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def child_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child that imports the same packages as this process, including gpupipe.

    ``PYTHONPATH`` is ``sys.path`` without the current folder; ``PYTHONSAFEPATH`` also keeps the current folder off the
    import path of processes that the child starts. `settings` are further environment variables.
    """
    path = os.pathsep.join(filter(_is_importable_for_children, sys.path))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **(settings or {})}


def private_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `child_environment` without variables that may contain secrets.

    Only the variables in `PUBLIC_NAMES` and with `PUBLIC_PREFIXES` remain. `settings` are further environment
    variables.
    """
    found = child_environment()
    kept = {name: found[name] for name in found if name in PUBLIC_NAMES or name.startswith(PUBLIC_PREFIXES)}
    return {**kept, **(settings or {})}


def _is_importable_for_children(folder: str) -> bool:
    if not os.path.isabs(folder) or os.pathsep in folder:
        return False
    try:
        is_current = os.path.samefile(folder, os.curdir)
    except OSError:  # zip archives are files, and folders may be missing
        return True
    return not is_current or any(os.path.samefile(folder, root) for root in _our_roots())


def _our_roots() -> list[Path]:
    """Return the folders that contain gpupipe and gpupipe_kernels; in a checkout, one may be the current folder."""
    kernels = find_spec("gpupipe_kernels")
    found = [] if kernels is None else [Path(path).parent for path in kernels.submodule_search_locations or ()]
    return [Path(__file__).parents[2], *found]
