"""Compatibility of numba-cuda with recent NumPy releases."""

from __future__ import annotations


def restore_row_stack() -> None:
    """Restore ``numpy.row_stack`` as an alias of ``vstack`` if NumPy has removed it.

    Call this before the first import of cuDF or of a library that imports it: numba-cuda up to 0.30 (checked: 0.30.4)
    looks up the name at import, and NumPy 2.5 has removed it, so ``import cudf`` would fail with AttributeError.
    """
    import numpy as np

    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined, unused-ignore]
