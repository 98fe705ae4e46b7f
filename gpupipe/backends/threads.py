"""Thread limits of the numeric libraries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def limit_threads(blas: int | None = None, openmp: int | None = None) -> AbstractContextManager[Any]:
    """Return a context that limits the threads of BLAS and of OpenMP; None: no limit.

    The limit of OpenMP is for loops of the calling thread, that of BLAS for the whole process.
    """
    from threadpoolctl import threadpool_limits

    context: AbstractContextManager[Any] = threadpool_limits({"blas": blas, "openmp": openmp})
    return context


def thread_limits(blas: int) -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that returns the context `limit_threads` of BLAS, of the libraries that are loaded now.

    Searching the process for libraries takes as long as predicting hundreds of rows.
    """
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    return lambda: controller.limit(limits=blas, user_api="blas")
