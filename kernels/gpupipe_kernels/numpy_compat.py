"""Compatibility of numba-cuda with recent releases of NumPy."""

from __future__ import annotations


def restore_row_stack() -> None:
    """Add ``numpy.row_stack`` back, as another name of ``vstack``, where NumPy no longer has it.

    Call it before the first import of cuDF, or of a library that imports it: numba-cuda up to 0.30 (checked: 0.30.4)
    looks the name up while it is imported, and NumPy 2.5 has removed it, so ``import cudf`` fails with AttributeError.
    """
    import numpy as np

    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined, unused-ignore]
