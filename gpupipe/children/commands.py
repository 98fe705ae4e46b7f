"""Commands and environments of child Python processes, without the current folder on their path."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

# What Python, its libraries and gpupipe itself are set up by; everything else may be a secret.
PUBLIC_NAMES = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME"}
PUBLIC_PREFIXES = (
    "LC_", "LD_", "DYLD_", "PYTHON", "GPUPIPE_", "OMP_", "KMP_", "GOMP_", "OPENBLAS_", "MKL_", "BLIS_", "VECLIB_",
    "NUMBA_", "CUDA_", "NVIDIA_", "MALLOC_", "GLIBC_", "ARROW_",
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
    """Return the command that runs a script of the user's, which may import from its own folder.

    Use it with `script_environment`.
    """
    return [sys.executable, os.fspath(script), *arguments]


def script_environment() -> dict[str, str]:
    """Return the environment of a script of the user's: without what gpupipe sets for processes of libraries."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def child_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child that imports the packages of this process, its gpupipe included.

    ``PYTHONPATH`` is ``sys.path`` without the current folder, and ``PYTHONSAFEPATH`` keeps the current folder out of
    the path of processes that the child starts.

    Parameters
    ----------
    settings : mapping of str to str, optional
        Further environment variables.
    """
    path = os.pathsep.join(filter(_is_importable_for_children, sys.path))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **(settings or {})}


def private_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `child_environment` without the variables that may hold secrets: a child that is taken over sees none.

    Kept are those of `PUBLIC_NAMES` and `PUBLIC_PREFIXES`.

    Parameters
    ----------
    settings : mapping of str to str, optional
        Further environment variables.
    """
    found = child_environment()
    kept = {name: found[name] for name in found if name in PUBLIC_NAMES or name.startswith(PUBLIC_PREFIXES)}
    return {**kept, **(settings or {})}


def _is_importable_for_children(folder: str) -> bool:
    if not os.path.isabs(folder) or os.pathsep in folder:
        return False
    try:
        is_current = os.path.samefile(folder, os.curdir)
    except OSError:  # zip archives are files, and folders may be absent
        return True
    return not is_current or any(os.path.samefile(folder, root) for root in _our_roots())


def _our_roots() -> list[Path]:
    """Return the folders that hold gpupipe and gpupipe_kernels: a checkout may be the current folder."""
    kernels = find_spec("gpupipe_kernels")
    found = [] if kernels is None else [Path(path).parent for path in kernels.submodule_search_locations or ()]
    return [Path(__file__).parents[2], *found]
