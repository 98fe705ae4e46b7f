"""Which engine computes: one of three implementations of the same operations.

``numpy``  NumPy alone: nothing to compile or to load, so it is what small inputs run
``numba``  compiled loops on all cores of the host
``cuda``   CUDA kernels, for arrays that lie on the device
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from gpupipe_kernels.code_cache import is_kept

if TYPE_CHECKING:
    from gpupipe_kernels.keyed.history import Codes, Column, Events, History
    from gpupipe_kernels.keyed.queries import Queries

Array = Any
Allocate = Callable[[int, str], Array]
"""(length, dtype) to an uninitialised array of the device."""

MOMENTS = ("count", "sum", "mean", "std")
"""Aggregates that are made of sums; engines know them by their positions here."""

COUNT, SUM, MEAN, STD = range(4)

# Rows from which on the compiled loops are the faster way for a dozen features, measured on two cores: NumPy takes 1 to
# 1.5 us a row for these, the loops 0.1; Numba takes 0.5 s to load and to read them from disk, and 6 s to compile them.
ROWS_WORTH_RUNNING = 4_000
ROWS_WORTH_LOADING = 500_000
ROWS_WORTH_COMPILING = 4_000_000
KEPT = "keyed_take"  # a loop that every history runs stands for all


class Engine(Protocol):
    """What every engine does, on arrays of its own kind: NumPy's, or the device's.

    `Queries` and `Events` say which arrays belong together; the results of queries are float32 (or, of codes, int32)
    arrays of `Queries.n_rows`.

    Attributes
    ----------
    name : {"numpy", "numba", "cuda"}
    """

    name: str

    def given(self, array: Array, dtype: str) -> Array:
        """Return an array from outside as this engine takes it: of a dtype, its elements one behind the other."""

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        """Return (order, start, sorted time) of `order_events`; refused on the device."""

    def place(self, order: Array, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array]:
        """Return (start, sorted time) of rows that are already ordered."""

    def repeated(self, value: int, n: int) -> Array:
        """Return an int64 array of `n` times `value`."""

    def flags(self, where: Array) -> Array:
        """Return booleans from outside as `rank` takes them."""

    def numbers(self, values: Array) -> Array:
        """Return numbers from outside as float64."""

    def known_numbers(self, values: Array) -> Array | None:
        """Return flags of the values that are not NaN; None for all."""

    def known_codes(self, codes: Array, null: int) -> Array | None:
        """Return flags of the codes that are not `null`; None for all."""

    def level_codes(self, values: Array) -> Array:
        """Return int32 codes from 0 of float64 values, equal ones for equal values; any for NaN."""

    def rank(self, keep: Array) -> Array:
        """Return how many flags are set before each position, int32, one longer than the flags."""

    def compact(self, array: Array, keep: Array, rank: Array) -> Array:
        """Return the elements whose flag is set."""

    def take(self, array: Array, index: Array) -> Array:
        """Return the elements at an index."""

    def of_events(self, history: History, include_current: bool) -> tuple[Array, Array]:
        """Return (low, high) of `queries_of_events`."""

    def before(self, history: History, key: Array, time: Array) -> tuple[Array, Array]:
        """Return (low, high) of `queries_before`."""

    def last_rows(self, queries: Queries, n: int) -> Array:
        """Return the low of windows of `n` events."""

    def last_span(self, queries: Queries, span: int) -> Array:
        """Return the low of windows of `span` microseconds."""

    def gaps(self, history: History, unit: float) -> Array:
        """Return the time from the event before, float64."""

    def count(self, events: Events, queries: Queries) -> Array:
        """Return the number of events."""

    def moment(self, column: Column, queries: Queries, kind: int) -> Array:
        """Return one of the `MOMENTS`."""

    def extreme(self, column: Column, queries: Queries, sign: float) -> Array:
        """Return the least value for sign 1, the greatest for -1."""

    def pick(self, events: Events, queries: Queries, back: int, fill: float) -> Array:
        """Return the value `back` events before the cut-off, the first one for 0; `fill` where there is none."""

    def since(self, events: Events, queries: Queries, back: int, unit: float) -> Array:
        """Return the time from that event to the cut-off."""

    def nunique(self, codes: Codes, queries: Queries) -> Array:
        """Return the number of different codes."""

    def decayed(self, column: Column | None, queries: Queries, rate: float) -> Array:
        """Return the sum of ``x * 2 ** (-age * rate)``, of ones without a column."""

    def sessions(self, events: Events, queries: Queries, gap: int, unit: float) -> tuple[Array, Array, Array]:
        """Return (count, events of the last one, its age)."""


def choose(array: Array, name: str | None = None, n_threads: int = 1, allocate: Allocate | None = None) -> Engine:
    """Return the engine for an array: by where it lies, by `name` if that is given, or else by its length.

    `allocate` is for the engine of the device.

    Raises
    ------
    ValueError
        If there is no such engine for this array.
    """
    if type(array).__module__.partition(".")[0] != "numpy":
        if name is not None:
            raise ValueError(f"engine {name!r} is for arrays on the host")
        from gpupipe_kernels.keyed.cuda_engine import CudaEngine

        return CudaEngine(allocate)
    if name is None:
        name = "numba" if len(array) >= _rows_worth_numba() else "numpy"
    if name == "numpy":
        from gpupipe_kernels.keyed.numpy_engine import NumpyEngine

        return NumpyEngine()
    if name == "numba":
        from gpupipe_kernels.keyed.numba_engine import NumbaEngine

        return NumbaEngine(n_threads)
    raise ValueError(f"no engine {name!r} for arrays on the host: numpy or numba")


def _rows_worth_numba() -> int:
    """Return from how many rows on compiled loops pay in this process; asking does not load Numba."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return sys.maxsize
    loops = sys.modules.get("gpupipe_kernels.keyed.host_loops")
    if loops is not None and loops.take.signatures:
        return ROWS_WORTH_RUNNING
    return ROWS_WORTH_LOADING if is_kept(KEPT) else ROWS_WORTH_COMPILING
