"""Device loops of the formulas over queries and events; the arguments are those of the formulas."""

from __future__ import annotations

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.keyed.formulas import (
    before_at,
    count_at,
    decayed_at,
    extreme_at,
    gap_at,
    moment_at,
    nunique_at,
    pick_at,
    session_at,
    since_at,
    span_at,
)
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.typing import Array


def _keyed_count(low: Array, high: Array, row: Array, rank: Array, out: Array) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        count_at(i, low, high, row, rank, out)


def _keyed_moment(
    low: Array, high: Array, row: Array, rank: Array, head: Array, hi: Array, lo: Array, squares: Array,
    squares_lo: Array, up: Array, down: Array, kind: int, out: Array,
) -> None:  # fmt: skip
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        moment_at(i, low, high, row, rank, head, hi, lo, squares, squares_lo, up, down, kind, out)


def _keyed_extreme(low: Array, high: Array, row: Array, rank: Array, tree: Array, sign: float, out: Array) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        extreme_at(i, low, high, row, rank, tree, sign, out)


def _keyed_pick(
    low: Array, high: Array, row: Array, rank: Array, values: Array, back: int, fill: float, out: Array
) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        pick_at(i, low, high, row, rank, values, back, fill, out)


def _keyed_pick_codes(
    low: Array, high: Array, row: Array, rank: Array, values: Array, back: int, fill: int, out: Array
) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        pick_at(i, low, high, row, rank, values, back, fill, out)


def _keyed_since(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, back: int, unit: float, out: Array
) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        since_at(i, low, high, row, rank, cutoff, time, back, unit, out)


def _keyed_nunique(low: Array, high: Array, row: Array, rank: Array, before: Array, out: Array) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        nunique_at(i, low, high, row, rank, before, out)


def _keyed_decayed(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, sums: Array, rate: float, up: Array,
    down: Array, out: Array,
) -> None:  # fmt: skip
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        decayed_at(i, low, high, row, rank, cutoff, time, sums, rate, up, down, out)


def _keyed_session(
    low: Array, high: Array, row: Array, rank: Array, cutoff: Array, time: Array, before: Array, first: Array,
    unit: float, count: Array, events: Array, age: Array,
) -> None:  # fmt: skip
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        session_at(i, low, high, row, rank, cutoff, time, before, first, unit, count, events, age)


def _keyed_before(start: Array, time: Array, key: Array, cutoff: Array, low: Array, high: Array) -> None:
    for i in range(cuda.grid(1), key.size, cuda.gridsize(1)):
        before_at(i, start, time, key, cutoff, low, high)


def _keyed_span(low: Array, high: Array, cutoff: Array, time: Array, span: int, out: Array) -> None:
    for i in range(cuda.grid(1), low.size, cuda.gridsize(1)):
        span_at(i, low, high, cutoff, time, span, out)


def _keyed_gaps(head: Array, time: Array, unit: float, out: Array) -> None:
    for i in range(cuda.grid(1), time.size, cuda.gridsize(1)):
        gap_at(i, head, time, unit, out)


I32, I64, U8, F32, F64 = "int32[::1]", "int64[::1]", "uint8[::1]", "float32[::1]", "float64[::1]"
QUERY = (I32,) * 4

count = DeviceLoop(_keyed_count, *QUERY, F32)
moment = DeviceLoop(_keyed_moment, *QUERY, U8, F64, F64, F64, F64, I32, I32, "int64", F32)
extreme = DeviceLoop(_keyed_extreme, *QUERY, F32, "float64", F32)
pick = DeviceLoop(_keyed_pick, *QUERY, F64, "int64", "float64", F32)
pick_codes = DeviceLoop(_keyed_pick_codes, *QUERY, I32, "int64", "int64", I32)
since = DeviceLoop(_keyed_since, *QUERY, I64, I64, "int64", "float64", F32)
nunique = DeviceLoop(_keyed_nunique, *QUERY, I32, F32)
decayed = DeviceLoop(_keyed_decayed, *QUERY, I64, I64, F64, "float64", I32, I32, F32)
session = DeviceLoop(_keyed_session, *QUERY, I64, I64, I32, I32, "float64", F32, F32, F32)
before = DeviceLoop(_keyed_before, I32, I64, I32, I64, I32, I32)
span = DeviceLoop(_keyed_span, I32, I32, I64, I64, "int64", I32)
gaps = DeviceLoop(_keyed_gaps, U8, I64, "float64", F64)
