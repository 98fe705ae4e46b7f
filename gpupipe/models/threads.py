"""Thread limits of the numeric libraries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def limit_threads(blas: int, openmp: int | None = None) -> AbstractContextManager[Any]:
    """Return a context that limits the threads of BLAS and of OpenMP (None: do not limit OpenMP)."""
    from threadpoolctl import threadpool_limits

    limits = {"blas": blas} if openmp is None else {"blas": blas, "openmp": openmp}
    context: AbstractContextManager[Any] = threadpool_limits(limits)
    return context
