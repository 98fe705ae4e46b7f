"""How many threads the libraries below us use, and how their idle threads wait."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any


def wait_passively() -> None:
    """Let idle OpenMP threads sleep instead of spin, unless the environment says otherwise.

    Spinning threads starve each other as soon as another program runs: boosting took 8 s instead of 0.9 s with two
    threads on two busy cores. OpenMP reads the variable when it is loaded, so this comes before scikit-learn.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def limit_threads(blas: int, openmp: int | None = None) -> AbstractContextManager[Any]:
    """Return a context in which linear algebra and OpenMP have at most so many threads (None: leave OpenMP alone)."""
    from threadpoolctl import threadpool_limits

    limits = {"blas": blas} if openmp is None else {"blas": blas, "openmp": openmp}
    context: AbstractContextManager[Any] = threadpool_limits(limits)
    return context
