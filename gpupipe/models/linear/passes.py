"""Passes over the rows of a matrix: reductions of float64 blocks, on all threads, in a fixed order of the sums.

The matrix is read where it is: the only float64 copies are a block for each thread. Blocks and the order in which their
results are merged depend on the rows only, so that a result has the same bits with any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpupipe.models.fitted.seen_rows import SeenRows
    from gpupipe.typing import Array

# In float64 at a time: 2 MB of 57 columns, measured within 5 % of the best of 1,024 to 16,384.
BLOCK_ROWS = 4_096
# Rows of a task. A task adds one matrix of products to the sum, which costs as much as its rows if these are as few as
# the columns.
TASK_ROWS = 4 * BLOCK_ROWS

Parts = list[Any]  # the results of a reduction of some rows
Reduction = Callable[..., Parts]  # called with an iterator of blocks, and further arguments
Merge = Callable[[Parts, Parts], Parts]


class RowBlock(NamedTuple):
    """Rows in float64.

    - ``columns``: shape (d + 1, m), which the next block overwrites. The last row is free: for ones or the target
    - ``y``, ``weights``: shape (m,); the weights are float64
    - ``scratch``: memory of the shape of the columns: a new array for each block takes 30 % longer
    """

    columns: Array
    y: Array
    weights: Array
    scratch: Array


def add(sums: Parts, others: Parts) -> Parts:
    """Return the sums of parts that are additive."""
    return [one + other for one, other in zip(sums, others, strict=True)]


def reduce_rows(
    X: Array,
    y: Array,
    weights: Array | None,
    n_threads: int,
    function: Reduction,
    arguments: Sequence[Any],
    merge: Merge,
) -> Parts:
    """Return the merged results of ``function(blocks, *arguments)`` for consecutive rows.

    BLAS is limited to one thread by the caller: to find and limit it takes longer than a pass over few rows.

    - `X` (array of float32, shape (n, d), column-major): not written to
    - `y`, `weights` (arrays, shape (n,)): targets, and weights of float64 or None
    """
    import numpy as np

    starts = range(0, max(1, len(X)), TASK_ROWS)

    def run(start: int) -> Parts:
        rows = slice(start, start + TASK_ROWS)
        blocks = _blocks(X[rows], y[rows], None if weights is None else weights[rows])
        with np.errstate(over="ignore", invalid="ignore"):  # the solvers check whether their results are finite
            return function(blocks, *arguments)

    if min(n_threads, len(starts)) < 2:
        return reduce(merge, map(run, starts))
    with ThreadPoolExecutor(n_threads) as pool:
        return reduce(merge, pool.map(run, starts))


def _blocks(X: Array, y: Array, weights: Array | None) -> Iterator[RowBlock]:
    """Yield blocks of rows; one empty block if there are no rows."""
    import numpy as np

    n_rows, n_columns = X.shape
    buffer, scratch = np.empty((2, n_columns + 1, min(n_rows, BLOCK_ROWS)))
    for start in range(0, max(1, n_rows), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        part = X[rows].T
        columns = buffer[:, : part.shape[1]]
        np.copyto(columns[:-1], part)
        own = np.ones(part.shape[1]) if weights is None else weights[rows]
        yield RowBlock(columns, y[rows], own, scratch[:, : part.shape[1]])


class Passes(ABC):
    """Passes over the rows of a matrix with their targets and weights.

    ``shape`` is that of the matrix, ``total_weight`` the sum of the weights, and ``n`` the number of passes so far.
    """

    def __init__(
        self, shape: tuple[int, int], weights: Array | None, safe_point: Callable[[str], None] | None = None
    ) -> None:
        self.shape = shape
        self.total_weight = float(shape[0] if weights is None else weights.sum())
        self.n = 0
        self._safe_point = safe_point

    def reduce(self, function: Reduction, *arguments: Any, merge: Merge = add) -> Parts:
        """Return the results of ``function(blocks, *arguments)`` for blocks of rows, merged in the order of the rows.

        `function` and `merge` are functions of a module, and the arguments can be pickled.
        """
        self.n += 1
        if self._safe_point is not None:
            self._safe_point(f"after {self.n - 1} passes")
        return self._reduce(function, arguments, merge)

    @abstractmethod
    def _reduce(self, function: Reduction, arguments: Sequence[Any], merge: Merge) -> Parts: ...


class MatrixPasses(Passes):
    """Passes over a matrix in the memory of this process; see `reduce_rows`."""

    def __init__(self, X: Array, y: Array, weights: Array | None, n_threads: int) -> None:
        n_rows, n_columns = X.shape
        super().__init__((n_rows, n_columns), weights)
        self._rows = X, y, weights, n_threads

    def _reduce(self, function: Reduction, arguments: Sequence[Any], merge: Merge) -> Parts:
        return reduce_rows(*self._rows, function, arguments, merge)


class ContinuedPasses(Passes):
    """Passes over further rows, whose results have those of rows that were seen before added by `add`.

    ``add(seen, function, arguments, parts)`` returns the parts of all rows.
    """

    def __init__(
        self, passes: Passes, seen: SeenRows, add: Callable[[SeenRows, Reduction, Sequence[Any], Parts], Parts]
    ) -> None:
        super().__init__((passes.shape[0] + round(seen.total_weight), passes.shape[1]), None)
        self.total_weight = passes.total_weight + seen.total_weight
        self._further, self._seen = passes, seen
        self._add = add

    def _reduce(self, function: Reduction, arguments: Sequence[Any], merge: Merge) -> Parts:
        return self._add(self._seen, function, arguments, self._further.reduce(function, *arguments, merge=merge))
