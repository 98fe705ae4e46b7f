"""Keyed engine in CUDA kernels, for device arrays. Events arrive sorted, because sorting is left to CuPy."""

from __future__ import annotations

from typing import Any

from gpupipe_kernels.device import arrays
from gpupipe_kernels.keyed.compiled_engine import CompiledEngine
from gpupipe_kernels.keyed.cuda import events as event_loops
from gpupipe_kernels.keyed.cuda import loops, scan
from gpupipe_kernels.keyed.engine import History, KeyedEvents, Queries
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.typing import Allocate, Array

Pair = tuple[Array, Array]


class CudaEngine(CompiledEngine):
    """See `gpupipe_kernels.keyed.engine.KeyedEngine`.

    Parameters
    ----------
    allocate : Allocate, optional
        Allocates arrays, like ``cupy.empty``, whose memory pool may hold the device's memory and tracks its use.
    """

    name = "cuda"

    def __init__(self, allocate: Allocate | None = None) -> None:
        self._allocate = allocate or arrays.empty

    def given(self, array: Array, dtype: str) -> Array:
        kinds = ("float32", "float64") if dtype == "float64" else ("bool", "uint8") if dtype == "uint8" else (dtype,)
        if str(array.dtype) not in kinds:
            raise ValueError(f"expected a device array of {' or '.join(kinds)}, got {array.dtype}")
        if array.size > 1 and array.strides != (array.dtype.itemsize,):
            raise ValueError("expected a contiguous device array")
        found: Array = arrays.adopt(array)
        return found

    def sort(self, key: Array, time: Array, n_keys: int | None) -> tuple[Array, Array, Array]:
        raise ValueError("events on the device must be sorted: sort by key, then time, and pass order=")

    def place(self, order: Array, key: Array, time: Array, n_keys: int | None) -> Pair:
        if n_keys is None:
            raise ValueError("the number of keys is required on the device: pass n_keys=")
        sorted_key, start = self.take(key, order), self._new(n_keys + 1, "int32")
        _launch(event_loops.starts, len(order) + 1, sorted_key, start)
        return start, self.take(time, order)

    def repeated(self, value: int, n: int) -> Array:
        return self._new(n, "int64", value)

    def flags(self, where: Array) -> Array:
        return self.given(where, "uint8")

    def numbers(self, values: Array) -> Array:
        out = self._new(len(values), "float64")
        _launch(event_loops.numbers, len(values), self.given(values, "float64"), out)
        return out

    def known_numbers(self, values: Array) -> Array | None:
        keep = self._new(len(values), "uint8")
        _launch(event_loops.known_numbers, len(values), values, keep)
        return self._unless_all(keep)

    def known_codes(self, codes: Array, null: int) -> Array | None:
        keep = self._new(len(codes), "uint8")
        _launch(event_loops.known_codes, len(codes), codes, null, keep)
        return self._unless_all(keep)

    def level_codes(self, values: Array) -> Array:
        return self._inserted(values.view("int64"))[1]

    def rank(self, keep: Array) -> Array:
        rank = self._new(len(keep) + 1, "int32", 0)
        tiles = self._new(-(-len(keep) // scan.TILE), "int32")
        _launch_tiles(scan.count_tiles, len(tiles), keep, tiles)
        _launch_tiles(scan.join_counts, min(1, len(tiles)), tiles)
        _launch_tiles(scan.rank, len(tiles), keep, tiles, rank)
        return rank

    def compact(self, array: Array, keep: Array, rank: Array) -> Array:
        out = self._new(_last(rank), str(array.dtype))
        _launch(event_loops.compact, len(keep), array, keep, rank, out)
        return out

    def take(self, array: Array, index: Array) -> Array:
        out = self._new(len(index), str(array.dtype))
        _launch(event_loops.take, len(index), array, index, out)
        return out

    def of_events(self, history: History, include_current: bool) -> Pair:
        low, high = self._new(history.n_events, "int32"), self._new(history.n_events, "int32")
        _launch(event_loops.of_events, len(low), history.start, int(include_current), low, high)
        return low, high

    def last_rows(self, queries: Queries, n: int) -> Array:
        low = self._new(len(queries.low), "int32")
        _launch(event_loops.last_rows, len(low), queries.low, queries.high, min(n, queries.history.n_events), low)
        return low

    def gaps(self, history: History, unit: float) -> Array:
        out = self._new(history.n_events, "float64")
        head = history.events.once("head", self._head)
        _launch(loops.gaps, len(out), head, history.time, float(unit), out)
        return out

    def _run(self, loop: str, n: int, *arguments: Any) -> None:
        _launch(getattr(loops, loop), n, *arguments)

    def _new(self, n: int, dtype: str, value: float | None = None) -> Array:
        out = self._allocate(n, dtype)
        if value is not None:
            _launch(event_loops.fill, n, value, out)
        return out

    def _head(self, events: KeyedEvents) -> Array:
        head = self._new(len(events.time), "uint8", 0)
        _launch(event_loops.heads, len(events.start) - 1, events.start, head)
        return head

    def _running_sums(self, events: KeyedEvents, rate: float, squared: bool) -> Pair:
        n = len(events.time)
        n_tiles = -(-n // scan.TILE)
        given = (self._values(events), events.time, events.once("head", self._head), rate, squared)
        share, *tiles = (self._new(n_tiles, "float64") for _ in range(3))
        hi, lo = self._new(n, "float64"), self._new(n, "float64")
        _launch_tiles(scan.sum_tiles, n_tiles, *given, share, *tiles)
        _launch_tiles(scan.join_tiles, min(1, n_tiles), share, *tiles)
        _launch_tiles(scan.running_sums, n_tiles, *given, *tiles, hi, lo)
        return hi, lo

    def _infinities(self, events: KeyedEvents) -> Pair:
        if events.values is None:
            return self._new(0, "int32"), self._new(0, "int32")
        up, down = (self._count_beyond(events.values, sign) for sign in (1.0, -1.0))
        return (up, down) if _last(up) or _last(down) else (self._new(0, "int32"),) * 2

    def _count_beyond(self, values: Array, sign: float) -> Array:
        flags = self._new(len(values), "uint8")
        _launch(event_loops.beyond, len(values), values, sign, flags)
        return self.rank(flags)

    def _tree(self, events: KeyedEvents, sign: float) -> Array:
        n = len(events.time)
        tree = self._new(2 * n, "float32")
        _launch(event_loops.leaves, n, events.values, sign, tree)
        end = n
        while end > 1:  # see keyed.numpy.events.grow
            first = (end + 1) // 2
            _launch(event_loops.branches, end - first, tree, first, end)
            end = first
        return tree

    def _firsts(self, events: KeyedEvents) -> Array:
        n = len(events.time)
        pairs, flags = self._new(n, "int64"), self._new(n, "uint8")
        _launch(event_loops.pairs, n, events.start, events.values, pairs)
        first, slots = self._inserted(pairs)
        _launch(event_loops.is_first, n, first, slots, flags)
        return self.rank(flags)

    def _inserted(self, values: Array) -> Pair:
        """Return the first position per slot of a hash table, and the slot of each value."""
        size = 1 << max(1, (2 * len(values) - 1).bit_length())  # load factor of at most 0.5
        table, first = self._new(size, "int64", event_loops.EMPTY), self._new(size, "int32", event_loops.NOBODY)
        slots = self._new(len(values), "int32")
        _launch(event_loops.insert, len(values), values, table, first, slots)
        return first, slots

    def _session_begins(self, events: KeyedEvents, gap: int) -> Pair:
        begins = self._new(len(events.time), "uint8")
        head = events.once("head", self._head)
        _launch(event_loops.session_begins, len(begins), events.time, head, gap, begins)
        rank = self.rank(begins)
        first = self._new(_last(rank), "int32")
        _launch(event_loops.positions, len(begins), begins, rank, first)
        return rank, first

    def _unless_all(self, keep: Array) -> Array | None:
        return keep if _last(self.rank(keep)) < len(keep) else None

    def _values(self, events: KeyedEvents) -> Array:
        return self._new(0, "float64") if events.values is None else events.values


def _launch(loop: DeviceLoop, n: int, *arguments: Any) -> None:
    loop.launch(min(n, scan.MOST_THREADS), *arguments, threads=scan.THREADS)


def _launch_tiles(loop: DeviceLoop, n_tiles: int, *arguments: Any) -> None:
    _launch(loop, n_tiles * scan.THREADS, *arguments)


def _last(rank: Array) -> int:
    """Return the number of set flags, the only value copied to the host, where it determines an array's size."""
    return arrays.item(rank, len(rank) - 1)
