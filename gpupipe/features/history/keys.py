"""Whose row each is, and events in the order of their keys: on the host by Arrow and NumPy, on a device by CuPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa

    from gpupipe.backends.base import Backend
    from gpupipe.features.history.tables import Events, Rows


@dataclass(frozen=True)
class Keys:
    """Whose row each is, as codes that are equal where keys are.

    Attributes
    ----------
    main, events : array of int32, shape (rows,)
        Of the main table, and of the table of events, which may be the same one; -1 where there is no key.
    size : int
        More than the largest code of an event.
    """

    main: Array
    events: Array
    size: int


def own_keys(main: Rows, names: Sequence[str], backend: Backend) -> Keys:
    """Return the keys of a table whose rows are the events themselves; without names all rows have one key."""
    if not names:
        codes = backend.xp.zeros(main.n_rows, "int32")
        return Keys(codes, codes, min(main.n_rows, 1))
    columns = [main.raw(name) for name in names]
    if backend.name == "gpu":
        from gpupipe.table.device import keys as device_keys

        codes, size = device_keys.row_codes(_there(columns, backend), backend)
        codes = codes.astype("int32")
        return Keys(codes, codes, size)
    from gpupipe.table.keys import row_codes

    codes = _plain(row_codes(main.host_columns(names), names))
    return Keys(codes, codes, _size(codes))


def shared_keys(main: Rows, further: Events, backend: Backend) -> Keys:
    """Return the keys of the main table and of a further one, whose rows are the events.

    Raises
    ------
    SchemaError
        If a pair of key columns has types that cannot be compared.
    """
    events, names = further.rows, (further.left, further.right)
    left, right = ([rows.raw(name) for name in of] for rows, of in zip((main, events), names, strict=True))
    if backend.name == "gpu":
        from gpupipe.table.device import keys as device_keys

        pairs = list(zip(*names, strict=True))
        left, right = _there(left, backend), _there(right, backend)
        mine, theirs, size = device_keys.key_codes(left, right, pairs, events.label, backend)
        return Keys(mine.astype("int32"), theirs.astype("int32"), size)
    from gpupipe.table.keys import key_codes

    found = key_codes(main.host_columns(names[0]), names[0], events.host_columns(names[1]), names[1], events.label)
    mine, theirs = map(_plain, found)
    return Keys(mine, theirs, _size(theirs))


def ordered(keys: Keys, times: Array, backend: Backend) -> Any:
    """Return the events as a `gpupipe_kernels.keyed.History`; `times` are int64 microseconds, shape (events,)."""
    from gpupipe_kernels import keyed

    if backend.name == "cpu":
        return keyed.order_events(keys.events, times, keys.size, n_threads=backend.n_threads)
    from gpupipe.table.device.keys import in_order

    order = in_order(keys.events, times, backend.xp)
    return keyed.order_events(keys.events, times, keys.size, order=order, allocate=backend.xp.empty)


def _there(columns: Sequence[Any], backend: Backend) -> list[Any]:
    """Return columns on the device; of those that the host has read, the codes move."""
    import pyarrow as pa

    from gpupipe.table.device.keys import coded

    return [coded(column, backend) if isinstance(column, pa.ChunkedArray) else column for column in columns]


def _plain(codes: pa.Array) -> Array:
    import numpy as np

    found: Array = codes.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return found


def _size(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1
