"""Predictions of tables by blocks of rows, on the threads of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpupipe.backends import machine

if TYPE_CHECKING:
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine

# Rows times trees from which compiled loops are used: compiling them takes 2 s, and 2e7 in NumPy 1.3 s.
COMPILED_FROM = 1 << 24
MIN_BLOCK_ROWS = 2_048  # fewer rows per thread take no longer on one
_expected_rows: ContextVar[int] = ContextVar("expected_rows", default=0)


@contextmanager
def repeated_predictions(n_rows: int) -> Iterator[None]:
    """Choose the loops of `BlockPredictor` in this context by `n_rows`, those that several calls predict together.

    A context within another one that expects more changes nothing.
    """
    token = _expected_rows.set(max(n_rows, _expected_rows.get()))
    try:
        yield
    finally:
        _expected_rows.reset(token)


def predict_in_blocks(predict: Callable[[Array], Array], X: Array, n_threads: int | None = None) -> Array:
    """Return ``predict(X)``, with a block of the rows for each thread; None: for each thread of the machine."""
    import numpy as np

    if len(X) <= MIN_BLOCK_ROWS:  # the number of threads is read from files of the system
        return predict(X)
    n_threads = n_threads or machine.n_threads()
    step = max(MIN_BLOCK_ROWS, -(-len(X) // n_threads))
    if len(X) <= step:
        return predict(X)
    with ThreadPoolExecutor(n_threads) as pool:
        blocks = pool.map(predict, [X[start : start + step] for start in range(0, len(X), step)])
        found: Array = np.concatenate(list(blocks))
    return found


class BlockPredictor:
    """A prediction of rows in NumPy for small tables and compiled for large ones, with the same digits.

    `make` returns the function from rows, float32, shape (n, d), to float64, shape (n, n_outputs), for an engine.
    """

    def __init__(self, make: Callable[[HostEngine], Callable[[Array], Array]], n_trees: int) -> None:
        self.make, self.n_trees = make, n_trees

    def __call__(self, X: Array) -> Array:
        """Return the prediction of each row of `X`."""
        is_large = max(len(X), _expected_rows.get()) * self.n_trees >= COMPILED_FROM
        can_compile = is_large and os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" and find_spec("numba") is not None
        return predict_in_blocks(self._compiled if can_compile else self._in_numpy, X)

    @cached_property
    def _compiled(self) -> Callable[[Array], Array]:
        return self.make("numba")

    @cached_property
    def _in_numpy(self) -> Callable[[Array], Array]:
        return self.make("numpy")
