"""Which engine computes: one of three implementations of the same operations.

``numpy``  NumPy alone: nothing to compile or to load, so it is what small inputs run
``numba``  compiled loops on all cores of the host
``cuda``   CUDA kernels, for arrays that lie on the device
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from gpupipe_kernels.opcodes import NAT

if TYPE_CHECKING:
    from gpupipe_kernels.keyed.history import Events, History
    from gpupipe_kernels.keyed.queries import Queries

Array = Any

ROWS_WORTH_NUMBA = 1_000_000


class Engine(Protocol):
    """What every engine does, on arrays of its own kind: NumPy's, or the device's.

    `Queries` and `Events` say which arrays belong together; the results of queries are float32 (or, of codes, int32)
    arrays of `Queries.n_rows`.
    """

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        """Return (order, start, sorted time) of `order_events`; refused on the device."""

    def place(self, order: Array, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array]:
        """Return (start, sorted time) of rows that are already ordered."""

    def repeated(self, value: int, n: int) -> Array:
        """Return an int64 array of `n` times `value`."""

    def flags(self, where: Array) -> Array:
        """Return booleans as `rank` takes them."""

    def numbers(self, values: Array) -> Array:
        """Return values as float64, one behind the other."""

    def known_numbers(self, values: Array) -> tuple[Array, Array | None]:
        """Return values as float64, and flags of those that are not NaN; None for all."""

    def known_codes(self, codes: Array, null: int) -> tuple[Array, Array | None]:
        """Return codes as int32, and flags of those that are not `null`; None for all."""

    def level_codes(self, values: Array) -> Array:
        """Return int32 codes from 0 of float64 values, equal ones for equal values."""

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

    def moment(self, events: Events, queries: Queries, kind: int) -> Array:
        """Return one of the `MOMENTS`."""

    def extreme(self, events: Events, queries: Queries, sign: float) -> Array:
        """Return the least value for sign 1, the greatest for -1."""

    def pick(self, events: Events, queries: Queries, back: int, fill: float) -> Array:
        """Return the value `back` events before the cut-off, the first one for 0; `fill` where there is none."""

    def since(self, events: Events, queries: Queries, back: int, unit: float) -> Array:
        """Return the time from that event to the cut-off."""

    def nunique(self, events: Events, queries: Queries) -> Array:
        """Return the number of different codes."""

    def decayed(self, events: Events, queries: Queries, rate: float) -> Array:
        """Return the sum of ``x * 2 ** (-age * rate)``."""

    def sessions(self, events: Events, queries: Queries, gap: int, unit: float) -> tuple[Array, Array, Array]:
        """Return (count, events of the last one, its age)."""


def choose(array: Array, name: str | None = None, n_threads: int | None = None) -> Engine:
    """Return the engine for an array: by where it lies, by `name` if that is given, or else by its length.

    Raises
    ------
    ValueError
        If there is no such engine for this array.
    """
    if type(array).__module__.partition(".")[0] != "numpy":
        return _of_the_device(array, name)
    if name is None:
        name = "numba" if len(array) >= ROWS_WORTH_NUMBA else "numpy"
    if name == "numpy":
        from gpupipe_kernels.keyed.numpy_engine import NumpyEngine

        return NumpyEngine()
    if name == "numba":
        from gpupipe_kernels.keyed.numba_engine import NumbaEngine

        return NumbaEngine(n_threads or len(os.sched_getaffinity(0)))
    raise ValueError(f"no engine {name!r} for arrays on the host: numpy or numba")
