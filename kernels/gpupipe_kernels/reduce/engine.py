"""Interface of the reduction engines.

Each call reduces some rows on the calling thread and releases the interpreter lock. The caller splits the rows and
combines the results: integers in any order, floats in row order. Both engines give the same bits.
`gpupipe_kernels.reduce.cuda.engine` is for device arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.typing import Array

BLOCK_ROWS = 65_536  # rows and temporaries fit into the cache; shorter blocks lose time to the interpreter lock
CODES = ("int8", "int16", "int32")
BLOCKS = (*CODES, *(f"made_{dtype}" for dtype in CODES))  # those of a table, and those computed from it
LANES = 256  # parallel running sums: value i of a block is added to sum i % LANES
FLOAT32_MAX = 3.4028234663852886e38
LARGEST = 2.0**125  # larger numbers are nulls, as in an encoded table: see `gpupipe.table.schema`


class CellLayout(NamedTuple):
    """Assignment of a table's rows to cells.

    Attributes
    ----------
    blocks : mapping of str to array, shape (columns, n_rows)
        Blocks of codes, by name as in `BLOCKS`.
    steps : tuple of (str, int, int)
        Block, row and stride of each step: ``cell = cell * stride + code``, from 0.
    size : int
        Number of cells.
    y : array of float64, shape (n_rows,), optional
        Numbers to sum per cell.
    largest : float
        The largest absolute value in `y`; unused on the host.
    """

    blocks: Any
    steps: tuple[tuple[str, int, int], ...]
    size: int
    y: Array | None = None
    largest: float = 0.0


def valid_range(dtype: Any) -> Array:
    """Return the smallest and the largest value of a column that is not null, in the dtype of the column, shape (2,).

    NaN, infinities and numbers that are too large for float32 arithmetic are null, and so is NAT among int64 times.
    """
    dtype = np.dtype(dtype)
    return np.array([NAT + 1, -(NAT + 1)] if dtype.kind == "i" else [-LARGEST, LARGEST], dtype)


def seed_bits(seed: int) -> int:
    """Return 32 bits that spread similar seeds, by multiplication with 2**32 divided by the golden ratio."""
    return seed * 0x9E3779B1 % 2**32


class ReductionEngine(Protocol):
    """Operations of a host engine. Columns are contiguous arrays; outputs are written in place."""

    def sweep(self, x: Array, pivot: float, sums: Array, brackets: Array, out: Array, found: Array) -> tuple[int, int]:
        """Sum values, and collect those in brackets, in one pass.

        `sums` receives the sums of ``x - pivot`` and of its square. Values that exceed float32 relative to `pivot`,
        such as inf, are skipped.

        Parameters
        ----------
        x : array of float32 or float64, shape (n,)
        pivot : float
            Finite.
        sums : array of float64, shape (2, LANES)
            Or (0, LANES) to skip the sums.
        brackets : array of the dtype of `x`, shape (k, 2)
            Lower and upper bound of each bracket; may be infinite.
        out : array of the dtype of `x`, shape (k, n)
            Each row starts with the values ``low <= x <= high`` in their order; its other elements are undefined. For
            a bracket with low == high, values are only counted.
        found : array of int64, shape (k, 2)
            Initially 0; receives the number of values below and inside each bracket.

        Returns
        -------
        n_added, n_null : int
            Number of values in the sums, and of NaN values. 0 and 0 without sums.
        """

    def count(self, codes: Array, counts: Array) -> None:
        """Add the number of rows of each code to `counts`, int64, shape (n_codes,)."""

    def bin(self, x: Array, edges: Array, counts: Array) -> None:
        """Add the number of values in each bin to `counts`.

        Parameters
        ----------
        x : array of float32, float64 or int64 (times), shape (n,)
        edges : array of the dtype of `x`, shape (k,)
            Ascending, without nulls. A value is in bin i if i edges are not greater than it.
        counts : array of int64, shape (k + 2,)
            Receives the number of nulls (see `valid_range`), then that of each bin.
        """

    def fold(self, start: int, seed: int, n_folds: int, out: Array) -> None:
        """Write the folds of the rows from `start` on to `out`, int8: a hash of seed and row, in 1..n_folds."""

    def tally(self, cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
        """Add the rows ``start:stop`` to their cells.

        Parameters
        ----------
        counts : array of int64, shape (size,)
            Receives the number of rows of each cell.
        totals : array of float64, shape (size,), or (0,) without `y`
            Initially 0; receives the sums of `y`, in row order.
        """
