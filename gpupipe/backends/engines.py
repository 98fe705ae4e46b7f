"""Choice of the engine of single-row predictions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe_kernels.engines import HostEngine


def scorer_engine(engine: HostEngine | None) -> HostEngine:
    """Return the engine of a scorer: compiled loops if Numba is installed.

    Raise ConfigError if `engine` is unknown or not installed.
    """
    if engine not in (None, "numpy", "numba"):
        raise ConfigError(f"expected 'numpy' or 'numba'; got {engine!r}", where="engine")
    is_installed = find_spec("numba") is not None
    if engine == "numba" and not is_installed:
        raise ConfigError("Numba is not installed", where="engine", fix="pip install numba, or set engine='numpy'")
    return engine or ("numba" if is_installed else "numpy")
