"""The engine in compiled loops on the threads of the host; what NumPy does as fast stays NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.code_cache import mark_kept
from gpupipe_kernels.keyed import host_loops
from gpupipe_kernels.keyed.compiled import CompiledEngine
from gpupipe_kernels.keyed.host_scan import first_of_codes, pieces, running_sums
from gpupipe_kernels.keyed.host_sort import by_code, by_time
from gpupipe_kernels.keyed.numpy_engine import LARGEST, NumpyEngine, first_of_keys, least_tree, number_of_keys
from gpupipe_kernels.opcodes import NAT
from gpupipe_kernels.threads import run_blocks

if TYPE_CHECKING:
    from gpupipe_kernels.keyed.history import Events

Array = npt.NDArray[Any]
Pair = tuple[Array, Array]

BLOCK_QUERIES = 65_536


class NumbaEngine(CompiledEngine, NumpyEngine):
    """See `gpupipe_kernels.keyed.engines.Engine`.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    _session_begins = NumpyEngine._session_begins

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        n_keys, is_missing = number_of_keys(key, n_keys), time == NAT
        code = np.where(is_missing, np.int32(-1), key) if is_missing.any() else key
        order, start = by_code(code, n_keys, self.n_threads)
        sorted_time = time[order]
        late = sorted_time[1:] < sorted_time[:-1]
        if (late & ~first_of_keys(start)[1:]).any():  # a log is mostly in the order of time
            order = by_time(time, np.flatnonzero(code >= 0).astype(np.int32), self.n_threads)
            order, _ = by_code(code[order], n_keys, self.n_threads, order)
            sorted_time = time[order]
        return order, start, sorted_time

    def _run(self, loop: str, n: int, *arguments: Any) -> None:
        run = getattr(host_loops, "pick" if loop == "pick_codes" else loop)
        is_new = not run.signatures
        run_blocks(lambda start, stop: run(*arguments, start, stop), n, BLOCK_QUERIES, self.n_threads)
        if is_new and run.signatures:
            mark_kept(f"keyed_{loop}")

    def _new(self, n: int, dtype: str, value: float | None = None) -> Array:
        return np.empty(n, dtype) if value is None else np.full(n, value, dtype)

    def _head(self, events: Events) -> Array:
        return first_of_keys(events.start).view(np.uint8)

    def _running_sums(self, events: Events, rate: float, squared: bool) -> Pair:
        values = np.empty(0) if events.values is None else events.values
        head, cuts = events.once("head", self._head), events.once("pieces", lambda e: pieces(e.start))
        return running_sums(values, events.time, head, cuts, rate, squared, self.n_threads)

    def _infinities(self, events: Events) -> Pair:
        values = events.values
        if values is None or max(values.max(initial=0.0), -values.min(initial=0.0)) <= LARGEST:
            return (np.empty(0, np.int32),) * 2
        return self.rank(values > LARGEST), self.rank(values < -LARGEST)

    def _tree(self, events: Events, sign: float) -> Array:
        return least_tree(events.values, sign)[0]

    def _firsts(self, events: Events) -> Array:
        head = events.once("head", self._head)
        return self.rank(first_of_codes(events.values, events.start, head, self.n_threads))
