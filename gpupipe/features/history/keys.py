"""Encode entity keys as integer codes, and sort events by key and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.history.tables import EventTable, HistoryRows


@dataclass(frozen=True)
class EntityKeys:
    """The entity key of each row as an integer code; equal keys have equal codes.

    `main` and `events` are int32, shape (rows,), of the main table and of the event table, which may be the same table;
    -1 for a null key. `size` is an exclusive upper bound of the event codes.
    """

    main: Array
    events: Array
    size: int


def encode_own_keys(main: HistoryRows, names: Sequence[str], backend: Backend) -> EntityKeys:
    """Return the keys of a table whose own rows are the events; without `names`, all rows have the same key."""
    if not names:
        codes = backend.xp.zeros(main.n_rows, "int32")
        return EntityKeys(codes, codes, min(main.n_rows, 1))
    columns = [main.raw(name) for name in names]
    if backend.name == "gpu":
        from gpupipe.table.device import keys as device_keys

        codes, size = device_keys.row_codes(_on_device(columns, backend), backend)
        codes = codes.astype("int32")
        return EntityKeys(codes, codes, size)
    from gpupipe.table.keys import row_codes

    codes = _plain(row_codes(main.host_columns(names), names))
    return EntityKeys(codes, codes, _size(codes))


def encode_shared_keys(main: HistoryRows, further: EventTable, backend: Backend) -> EntityKeys:
    """Return the keys of the main table and of a further table of events.

    Raise SchemaError if a pair of key columns has types that cannot be compared.
    """
    events, names = further.rows, (further.left, further.right)
    left, right = ([rows.raw(name) for name in of] for rows, of in zip((main, events), names, strict=True))
    if backend.name == "gpu":
        from gpupipe.table.device import keys as device_keys

        pairs = list(zip(*names, strict=True))
        left, right = _on_device(left, backend), _on_device(right, backend)
        mine, theirs, size = device_keys.key_codes(left, right, pairs, events.label, backend)
        return EntityKeys(mine.astype("int32"), theirs.astype("int32"), size)
    from gpupipe.table.key_matches import KeyMatches
    from gpupipe.table.keys import key_codes

    of_main, of_events = (rows.host_columns(of) for rows, of in zip((main, events), names, strict=True))
    found = key_codes(of_main, names[0], of_events, names[1], events.label)
    matches = KeyMatches.of(of_main, names[0], of_events, names[1], found[0])
    if matches.are_few:
        backend.note(matches.note(events.label))
    mine, theirs = map(_plain, found)
    return EntityKeys(mine, theirs, _size(theirs))


def order_events(keys: EntityKeys, times: Array, backend: Backend, n_events: int) -> Any:
    """Return the events as a `gpupipe_kernels.keyed.History`; `times` are int64 microseconds, shape (events,).

    `n_events` is the number of events of all keys, so that each partition of the keys uses the same engine.
    """
    from gpupipe_kernels import keyed

    if backend.name == "cpu":
        engine = backend.host.choose_engine("keyed", n_events)
        return keyed.order_events(keys.events, times, keys.size, engine=engine, n_threads=backend.n_threads)
    from gpupipe.table.device.keys import sort_by_key

    order = sort_by_key(keys.events, times, backend.xp)
    return keyed.order_events(keys.events, times, keys.size, order=order, allocate=backend.xp.empty)


def _on_device(columns: Sequence[Any], backend: Backend) -> list[Any]:
    """Return columns on the device; columns on the host are moved as codes."""
    import pyarrow as pa

    from gpupipe.table.device.keys import dictionary_to_device

    return [
        dictionary_to_device(column, backend) if isinstance(column, pa.ChunkedArray) else column for column in columns
    ]


def _plain(codes: pa.Array) -> Array:
    import numpy as np

    found: Array = codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return found


def _size(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1
