"""What a reduction takes and gives, whichever engine computes it.

Each call reduces some rows on the thread that makes it, and lets go of the interpreter lock. Who calls cuts the rows
and adds up what comes back: integers in any order, floats in the order of the rows. Both engines give the same bits.
`gpupipe_kernels.reduce.cuda.engine` is for arrays on a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from gpupipe_kernels.typing import Array

BLOCK_ROWS = 65_536  # they stay in the cache with what is made of them; shorter blocks lose to the interpreter lock
CODES = ("int8", "int16", "int32")
BLOCKS = (*CODES, *(f"made_{dtype}" for dtype in CODES))  # those of a table, and those that are computed from it
LANES = 256  # running sums side by side: value i of a block goes to sum i % LANES
FLOAT32_MAX = 3.4028234663852886e38


class CellLayout(NamedTuple):
    """How the rows of a table fall into cells.

    Attributes
    ----------
    blocks : mapping of str to array, shape (columns, n_rows)
        Blocks of codes, by the names in `BLOCKS`.
    steps : tuple of (str, int, int)
        Block, row and stride of each step: ``cell = cell * stride + code``, from 0.
    size : int
        How many cells there are.
    y : array of float64, shape (n_rows,), optional
        Numbers to add up in each cell.
    largest : float
        The largest absolute value in `y`; the host does not ask for it.
    """

    blocks: Any
    steps: tuple[tuple[str, int, int], ...]
    size: int
    y: Array | None = None
    largest: float = 0.0


def seed_bits(seed: int) -> int:
    """Return 32 bits that differ much for seeds that differ little: the multiple of 2**32 over the golden ratio."""
    return seed * 0x9E3779B1 % 2**32


class ReductionEngine(Protocol):
    """What both engines of the host do. Columns are contiguous arrays; outputs are written in place."""

    def sweep(self, x: Array, pivot: float, sums: Array, brackets: Array, out: Array, found: Array) -> tuple[int, int]:
        """Add up values, and collect those in brackets, in one pass.

        To `sums` go the sums of ``x - pivot`` and of its square. Values that float32 cannot hold relative to `pivot`
        (inf among them) are left out.

        Parameters
        ----------
        x : array of float32 or float64, shape (n,)
        pivot : float
            Finite.
        sums : array of float64, shape (2, LANES)
            Or (0, LANES), if none are wanted.
        brackets : array of the dtype of `x`, shape (k, 2)
            Low and high of each; may be infinite.
        out : array of the dtype of `x`, shape (k, n)
            To the front of each row go the values with ``low <= x <= high``, in their order; the rest may hold
            anything. Those of a bracket with one value alone, low == high, are only counted.
        found : array of int64, shape (k, 2)
            0 before; how many values are below each bracket, and how many inside.

        Returns
        -------
        n_added, n_null : int
            Values in the sums; values that are NaN. 0 and 0 without sums.
        """

    def count(self, codes: Array, counts: Array) -> None:
        """Add the rows of each code to `counts`, int64, which has a place for every code."""

    def fold(self, start: int, seed: int, n_folds: int, out: Array) -> None:
        """Write the fold of rows `start`, `start` + 1... to `out`, int8: a hash of seed and row, in 1..n_folds."""

    def tally(self, cells: CellLayout, start: int, stop: int, counts: Array, totals: Array) -> None:
        """Add rows start..stop to the cells they belong to.

        Parameters
        ----------
        counts : array of int64, shape (size,)
            Rows of each cell.
        totals : array of float64, shape (size,), or (0,) without `y`
            0 before; the sums of `y`, added up in the order of the rows.
        """
