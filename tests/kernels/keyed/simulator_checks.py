"""Checks of every keyed feature on the simulated device against plain Python loops, one JSON line per check.

Run by test_simulator.py in a separate process, because Numba selects the simulator at import.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import cuda

from gpupipe_kernels import keyed
from gpupipe_kernels.keyed.cuda import events as event_loops
from gpupipe_kernels.keyed.cuda.scan import THREADS, TILE
from gpupipe_kernels.program.opcodes import NAT
from tests import simulator
from tests.kernels.keyed.comparison import assert_same, compare, host
from tests.kernels.keyed.tables import table

SIMULATED_TILE = 32
EVENTS_ALONE = slice(0, 1)
ONE_OF_EACH_KIND = slice(0, None, 4)  # events, a span before cut-offs, rows with the current event


def put(array: Any) -> Any:
    return cuda.to_device(np.ascontiguousarray(array))


def order_on_device(key: np.ndarray, time: np.ndarray) -> tuple[keyed.History, Any]:
    order = keyed.order_events(key, time, engine="numpy").order
    n_keys = int(key.max(initial=-1)) + 1
    return keyed.order_events(put(key), put(time), n_keys, order=put(order)), order


def one_key(n: int) -> keyed.History:
    return order_on_device(np.zeros(n, np.int32), np.arange(n))[0]


def every_feature(n: int, some: slice) -> None:
    events = table(n, odd=True)
    history, order = order_on_device(events.key, events.time)
    compare(events, history, put, order, some)


def sums_go_on_over_more_tiles_than_a_block_has_threads() -> None:
    n = TILE * (THREADS + 2) + 5
    history, values = one_key(n), np.random.default_rng(0).normal(size=n)
    queries = keyed.queries_of_events(history, include_current=True)
    assert_same(keyed.aggregate(put(values), queries, "sum"), np.cumsum(values))
    weights = 2.0 ** -(np.arange(n) / 7.0)
    assert_same(keyed.decayed_sum(None, queries, 7.0), np.cumsum(weights))


def zeros_of_both_signs_are_one_value() -> None:
    queries = keyed.queries_of_events(one_key(4), include_current=True)
    assert host(keyed.aggregate(put(np.array([0.0, -0.0, 1.0, -0.0])), queries, "nunique")).tolist() == [1, 1, 2, 2]


def float32_and_one_cut_off_are_taken() -> None:
    history = one_key(3)
    queries = keyed.queries_before(history, put(np.array([0, -1, 5, 0], np.int32)), np.array(2))
    assert_same(keyed.aggregate(put(np.array([1, 2, 4], np.float32)), queries, "sum"), [3, 0, 0, 3])
    assert_same(host(keyed.gaps(history)).astype(np.float32), [np.nan, 1, 1])


def codes_below_zero_are_values_of_their_own_key() -> None:
    """Check negative slots, as in a table of more than 2**31, which is too large for this test."""
    start, codes, out = np.array([0, 2, 4], np.int32), np.array([-1, 5, -1, 5], np.int32), put(np.zeros(4, np.int64))
    event_loops.pairs.launch(4, put(start), put(codes), out)
    assert len(set(host(out).tolist())) == 4


def what_the_device_cannot_take_is_refused() -> None:
    key, time, order = np.zeros(3, np.int32), np.arange(3), np.arange(3, dtype=np.int32)
    history = one_key(3)
    for ask, message in (
        (lambda: keyed.order_events(put(key), put(time), 1), "must be sorted"),
        (lambda: keyed.order_events(put(key), put(time), order=put(order)), "n_keys"),
        (lambda: keyed.order_events(put(key), put(time), 1, order=put(order.astype(np.int64))), "array of int32"),
        (lambda: keyed.order_events(put(key), put(time), 1, order=put(order), engine="numba"), "on device arrays"),
        (lambda: keyed.column(history, put(np.arange(6.0))[::2]), "expected a contiguous device array"),
        (lambda: keyed.column(history, put(order)), "of float32 or float64"),
    ):
        try:
            ask()
        except ValueError as error:
            assert message in str(error), str(error)
        else:
            raise AssertionError(f"taken, not refused: {message}")


def the_callers_allocator_makes_the_arrays() -> None:
    made: list[Any] = []

    def allocate(n: int, dtype: str) -> Any:
        made.append(cuda.device_array(n, dtype))
        return made[-1]

    key, time, order = np.zeros(3, np.int32), np.arange(3), np.arange(3, dtype=np.int32)
    history = keyed.order_events(put(key), put(time), 1, order=put(order), allocate=allocate)
    column = keyed.column(history, put(np.array([1.0, 3.0, 2.0])))
    found = keyed.aggregate(column, keyed.queries_of_events(history, True), "max")
    assert_same(found, [1, 3, 3])
    assert all(any(array is one for one in made) for array in (found, history.start, history.time, column.values))


def times_that_are_missing_see_nothing() -> None:
    queries = keyed.queries_before(one_key(3), put(np.zeros(2, np.int32)), put(np.array([NAT, 3])))
    assert host(keyed.count(queries)).tolist() == [0, 3]


SIZES = (0, 1, SIMULATED_TILE - 1, SIMULATED_TILE)
CHECKS: dict[str, Callable[[], None]] = {
    **{f"every_feature_of_{n}_rows": partial(every_feature, n, EVENTS_ALONE) for n in SIZES},
    **{
        f"every_feature_of_{n}_rows_by_windows": partial(every_feature, n, ONE_OF_EACH_KIND)
        for n in (SIMULATED_TILE + 1, 4 * SIMULATED_TILE + 3)
    },
    **{
        check.__name__: check
        for check in (
            sums_go_on_over_more_tiles_than_a_block_has_threads,
            zeros_of_both_signs_are_one_value,
            float32_and_one_cut_off_are_taken,
            codes_below_zero_are_values_of_their_own_key,
            what_the_device_cannot_take_is_refused,
            the_callers_allocator_makes_the_arrays,
            times_that_are_missing_see_nothing,
        )
    },
}


def main() -> None:
    assert TILE == SIMULATED_TILE
    simulator.install()
    warnings.simplefilter("ignore", RuntimeWarning)  # of what overflows: infinities, and integers that are to wrap
    for name, check in CHECKS.items():
        try:
            check()
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"check": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    main()
