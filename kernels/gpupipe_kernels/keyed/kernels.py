"""Declarations of the keyed kernels: each is a feature of a whole table, computed by both compiled engines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from gpupipe_kernels import keyed
from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.keyed import naive
from gpupipe_kernels.keyed.cuda import events as event_loops
from gpupipe_kernels.keyed.cuda import loops, scan
from gpupipe_kernels.keyed.engine import History
from gpupipe_kernels.keyed.features import Function
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.typing import HostArray

Tables = tuple[Any, ...]
Arguments = tuple[Argument, ...]
Compute = Callable[..., Any]

AGGREGATES: tuple[Function, ...] = ("count", "sum", "mean", "std", "min", "max", "first", "last", "nunique")
WINDOWED = AGGREGATES[:6]
N_SPARE_KEYS = 3
HALF_LIFE = 3e6  # microseconds
MOST_OF_ONE_KEY = 300  # the references are quadratic in it


def _aggregate(history: History, x: Any) -> Tables:
    queries, column = keyed.queries_of_events(history), keyed.column(history, x)
    return tuple(keyed.aggregate(column, queries, function) for function in AGGREGATES)


def _aggregate_naive(order: HostArray, key: HostArray, time: HostArray, n_keys: int, x: HostArray) -> Tables:
    seen, x = naive.seen_by_events(key, time, False), _of_rows(order, len(key), x)
    return tuple(naive.aggregate(x, seen, function) for function in AGGREGATES)


def _rolling(history: History, x: Any, rows: int, span: int) -> Tables:
    queries, column = keyed.queries_of_events(history, include_current=True), keyed.column(history, x)
    windows = keyed.last_rows(queries, rows), keyed.last_span(queries, span)
    return tuple(keyed.aggregate(column, window, function) for window, function in product(windows, WINDOWED))


def _rolling_naive(
    order: HostArray, key: HostArray, time: HostArray, n_keys: int, x: HostArray, rows: int, span: int
) -> Tables:
    seen, x = naive.seen_by_events(key, time, True), _of_rows(order, len(key), x)
    windows = [r[-rows:] for r in seen], naive.within_span(seen, time, time, span, True)
    return tuple(naive.aggregate(x, window, function) for window, function in product(windows, WINDOWED))


def _before(history: History, x: Any, query_key: Any, cutoff: Any) -> Tables:
    queries = keyed.queries_before(history, query_key, cutoff)
    column = keyed.column(history, x)
    totals = (keyed.aggregate(column, queries, function) for function in ("sum", "nunique"))
    faded, newest = keyed.decayed_sum(column, queries, HALF_LIFE), keyed.last_rows(queries, 1)  # few events in total
    of_newest = (keyed.aggregate(column, newest, function) for function in ("sum", "max"))
    return keyed.count(queries), *totals, keyed.time_since(queries), faded, *of_newest


def _before_naive(
    order: HostArray,
    key: HostArray,
    time: HostArray,
    n_keys: int,
    x: HostArray,
    query_key: HostArray,
    cutoff: HostArray,
) -> Tables:
    seen = naive.seen_before(key, time, query_key, cutoff)
    x, count = _of_rows(order, len(key), x), np.array([len(rows) for rows in seen], np.float64)
    since, faded = naive.time_since(time, seen, cutoff, "last"), naive.decayed_sum(x, time, seen, cutoff, HALF_LIFE)
    totals = (naive.aggregate(x, seen, function) for function in ("sum", "nunique"))
    of_newest = (naive.aggregate(x, [rows[-1:] for rows in seen], function) for function in ("sum", "max"))
    return count, *totals, since, faded, *of_newest


def _lag(history: History, x: Any, k: int) -> Tables:
    return keyed.lag(x, keyed.queries_of_events(history), k), keyed.gaps(history)


def _lag_naive(order: HostArray, key: HostArray, time: HostArray, n_keys: int, x: HostArray, k: int) -> Tables:
    seen = naive.seen_by_events(key, time, False)
    return naive.lag(_of_rows(order, len(key), x), seen, k), naive.time_since(time, seen, time, "last")[order]


def _decayed(history: History, x: Any, half_life: float) -> Tables:
    queries = keyed.queries_of_events(history)
    return keyed.decayed_sum(x, queries, half_life), keyed.decayed_sum(None, queries, half_life)


def _decayed_naive(
    order: HostArray, key: HostArray, time: HostArray, n_keys: int, x: HostArray, half_life: float
) -> Tables:
    seen, x = naive.seen_by_events(key, time, False), _of_rows(order, len(key), x)
    return tuple(naive.decayed_sum(v, time, seen, time, half_life) for v in (x, np.ones(len(key))))


def _sessions(history: History, gap: int) -> Tables:
    return keyed.sessions(keyed.queries_of_events(history), gap)


def _sessions_naive(order: HostArray, key: HostArray, time: HostArray, n_keys: int, gap: int) -> Tables:
    return naive.sessions(time, naive.seen_by_events(key, time, False), time, gap)


def _codes(history: History, codes: Any) -> Tables:
    queries = keyed.queries_of_events(history)
    picked = (keyed.pick(codes, queries, which) for which in ("first", "last"))
    return *picked, keyed.aggregate_codes(codes, queries, "nunique")


def _codes_naive(order: HostArray, key: HostArray, time: HostArray, n_keys: int, codes: HostArray) -> Tables:
    known = _of_rows(order, len(key), np.where(codes == 0, np.nan, codes))
    seen = naive.seen_by_events(key, time, False)
    picked = (np.nan_to_num(naive.aggregate(known, seen, which)).astype(np.int32) for which in ("first", "last"))
    return *picked, naive.aggregate(known, seen, "nunique")


def _of_rows(order: HostArray, n_rows: int, values: HostArray) -> HostArray:
    """Return values in the order of the table; NaN in rows that are not events."""
    table = np.full(n_rows, np.nan)
    table[order] = values
    return table


def _sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    """Return order, key, time and the number of keys, with one key in half of the rows, nulls and ties in time."""
    key = rng.integers(-1, n // 8 + 1, n).astype(np.int32)
    key[rng.random(n) < min(0.5, MOST_OF_ONE_KEY / max(n, 1))] = 0
    time = rng.integers(-40, 40, n) * 1_000_000 + rng.integers(-1, 2, n)  # spans and gaps on both sides of the limit
    time[rng.random(n) < 0.05] = NAT
    order = np.lexsort((time, key))
    order = order[(key[order] >= 0) & (time[order] != NAT)].astype(np.int32)
    return order, key, time, int(key.max(initial=-1)) + 1 + N_SPARE_KEYS


def _numbers(rng: np.random.Generator, n: int) -> HostArray:
    return np.where(rng.random(n) < 0.1, np.nan, rng.normal(5.0, 3.0, n).round(2))


def _sample_numbers(*rest: Any) -> Callable[..., tuple[Any, ...]]:
    def sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        events = _sample(rng, n)
        return *events, _numbers(rng, len(events[0])), *rest

    return sample


def _sample_before(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    order, key, time, n_keys = _sample(rng, n)
    asked = rng.integers(-1, n_keys + 2, n).astype(np.int32), rng.integers(-50, 50, n) * 1_000_000
    return order, key, time, n_keys, _numbers(rng, len(order)), *asked


def _sample_codes(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    events = _sample(rng, n)
    return *events, rng.integers(0, 9, len(events[0])).astype(np.int32)


def _sample_sessions(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return *_sample(rng, n), 5_000_000


def _kernel(
    name: str,
    summary: str,
    inputs: Arguments,
    outputs: Arguments,
    compute: Compute,
    reference: Compute,
    sample: Compute,
    device: tuple[DeviceLoop, ...],
) -> KernelDeclaration:
    def cpu(order: HostArray, key: HostArray, time: HostArray, n_keys: int, *rest: Any) -> Any:
        return compute(keyed.order_events(key, time, n_keys, engine="numba", n_threads=2), *rest)

    def gpu(order: Any, key: Any, time: Any, n_keys: int, *rest: Any) -> Any:
        return compute(keyed.order_events(key, time, n_keys, order=order), *rest)

    return KernelDeclaration(
        name,
        summary,
        (*EVENTS, *inputs),
        outputs,
        "skipped; a row without a key or time sees no event",
        2e-6,
        2e-6,
        reference,
        cpu,
        gpu,
        sample,
        (*PREPARES, *device),
    )


def _outputs(*names: str, dtype: str = "float32") -> tuple[Argument, ...]:
    return tuple(Argument(name, dtype) for name in names)


EVENTS = (
    Argument("order", "int32", ("events",)),
    Argument("key", "int32"),
    Argument("time", "int64"),
    Argument("n_keys", "int64", ()),
)
X = Argument("x", "float64", ("events",), null=np.nan)
CODES = Argument("codes", "int32", ("events",), null=0, least=0, greatest=1000)

PREPARES = (event_loops.starts, event_loops.take, event_loops.of_events, event_loops.fill, event_loops.heads)
RANKS = (scan.count_tiles, scan.join_counts, scan.rank)
KEEPS = (event_loops.numbers, event_loops.known_numbers, event_loops.compact, *RANKS)
SUMS = (scan.sum_tiles, scan.join_tiles, scan.running_sums, event_loops.beyond)
TREES = (event_loops.leaves, event_loops.branches, loops.extreme)
LEVELS = (event_loops.pairs, event_loops.insert, event_loops.is_first, loops.nunique)

KERNELS = (
    _kernel(
        "keyed_aggregate", "aggregates of the events before each row",
        (X,), _outputs(*AGGREGATES), _aggregate, _aggregate_naive, _sample_numbers(),
        (*KEEPS, *SUMS, *TREES, *LEVELS, loops.count, loops.moment, loops.pick),
    ),
    _kernel(
        "keyed_rolling", "aggregates of the last events up to each row, in windows by rows and by time",
        (X, Argument("rows", "int64", ()), Argument("span", "int64", ())),
        _outputs(*(f"{name}_{by}" for by, name in product(("rows", "span"), WINDOWED))),
        _rolling, _rolling_naive, _sample_numbers(3, 7_000_000),
        (*KEEPS, *SUMS, *TREES, loops.count, loops.moment, loops.span, event_loops.last_rows),
    ),
    _kernel(
        "keyed_before", "aggregates of the events before a cut-off",
        (X, Argument("query_key", "int32", null=-1), Argument("cutoff", "int64", null=NAT)),
        _outputs("count", "sum", "nunique", "since", "decayed", "newest_sum", "newest_max"),
        _before, _before_naive, _sample_before,
        (
            *KEEPS, *SUMS, *TREES, *LEVELS, loops.before, loops.count, loops.moment,
            loops.since, loops.decayed, event_loops.last_rows,
        ),
    ),
    _kernel(
        "keyed_lag", "value of an earlier event, and time since the previous event",
        (X, Argument("k", "int64", ())), (*_outputs("lag"), Argument("gaps", "float64", ("events",))),
        _lag, _lag_naive, _sample_numbers(2), (event_loops.numbers, loops.pick, loops.gaps),
    ),
    _kernel(
        "keyed_decayed_sum", "exponentially decayed sums",
        (X, Argument("half_life", "float64", ())), _outputs("sum", "count"), _decayed, _decayed_naive,
        _sample_numbers(HALF_LIFE), (*KEEPS, *SUMS, loops.decayed),
    ),
    _kernel(
        "keyed_sessions", "sessions before each row, separated by a gap",
        (Argument("gap", "int64", ()),), _outputs("count", "events", "age"), _sessions, _sessions_naive,
        _sample_sessions, (*RANKS, event_loops.session_begins, event_loops.positions, loops.session),
    ),
    _kernel(
        "keyed_codes", "first, last and number of distinct categories before each row",
        (CODES,), (*_outputs("first", "last", dtype="int32"), *_outputs("nunique")), _codes, _codes_naive,
        _sample_codes,
        (event_loops.known_codes, event_loops.compact, *RANKS, *LEVELS, loops.pick_codes),
    ),
)  # fmt: skip
