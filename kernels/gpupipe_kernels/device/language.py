"""Numba's CUDA language for loop files, imported only when a loop is compiled or simulated.

Loop files import the name `cuda` from here. It stands for ``numba.cuda``, which takes a second to import and needs
numba-cuda; a loop that is launched from shipped machine code needs neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba.core import config

_NOT_IMPORTED = object()
cuda: Any = _NOT_IMPORTED


def is_simulated() -> bool:
    """Return whether Numba's CUDA simulator replaces the device."""
    return bool(config.ENABLE_CUDASIM)


def bind(function: Callable[..., Any]) -> Any:
    """Import ``numba.cuda`` and bind it to the name `cuda` in this package's modules and in a function's globals.

    Numba recognises the module itself only, so a substitute that imports on first use cannot remain in its place.
    """
    from gpupipe_kernels.numpy_compat import restore_row_stack

    restore_row_stack()
    from numba import cuda as language

    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("gpupipe_kernels.")]
    for names in (function.__globals__, *modules):
        if names.get("cuda") is _NOT_IMPORTED:
            names["cuda"] = language
    return language
