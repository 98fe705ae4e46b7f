"""Thread limits of the numeric libraries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def limit_threads(blas: int, openmp: int | None = None) -> AbstractContextManager[Any]:
    """Return a context in which linear algebra and OpenMP have at most so many threads (None: leave OpenMP alone)."""
    from threadpoolctl import threadpool_limits

    limits = {"blas": blas} if openmp is None else {"blas": blas, "openmp": openmp}
    context: AbstractContextManager[Any] = threadpool_limits(limits)
    return context
