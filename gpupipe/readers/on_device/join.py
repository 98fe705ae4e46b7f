"""``tables:`` joined on a device: keys become codes of their distinct values, which alone come to the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Array, Backend
from gpupipe.readers.join import joined_names, match_note, require_column, require_unique
from gpupipe.readers.on_device.filter import Known
from gpupipe.readers.settings import JoinedTable
from gpupipe.table.device_columns import Coded, Numbers
from gpupipe.table.keys import key_codes

Pair = tuple[Array, Array]  # codes of the main table, and of the other: int64, -1 for no key


def join_columns(
    left: Mapping[str, Known], right: Mapping[str, Known], name: str, joined: JoinedTable, backend: Backend
) -> tuple[dict[str, Known], str]:
    """Return the columns of the main table with those of the table `name` at its rows, and what there is to say.

    Raises
    ------
    SchemaError
        As `gpupipe.readers.join.read_joined`.
    """
    label, on = f"table {name!r}", joined.on
    for key in on.left:
        require_column(list(left), key, "the main table")
    for key in on.right:
        require_column(list(right), key, label)
    (a, b), size = _codes(left, on.left, right, on.right, label, backend)
    _require_unique(b, right, on.right, joined, label, backend)
    if joined.cardinality == "one_to_one":
        _require_unique(a, left, on.left, joined, "the main table", backend)
    names = joined_names(list(left), list(right), name, joined)
    matches = _matches(a, b, size, backend)
    kinds = {name: declared.kind for name, declared in joined.declarations().items()}
    found = {new: _gathered(right[old], matches, kinds.get(old, "categorical"), backend) for old, new in names.items()}
    return {**left, **found}, match_note(label, int((matches < 0).sum()), len(matches))


def _codes(
    left: Mapping[str, Known],
    left_names: Sequence[str],
    right: Mapping[str, Known],
    right_names: Sequence[str],
    label: str,
    backend: Backend,
) -> tuple[Pair, int]:
    """Return codes that are equal where the keys are, and how many there may be."""
    codes: Pair | None = None
    size = 1
    for a, b in zip(left_names, right_names, strict=True):
        (rows_a, values_a), (rows_b, values_b) = _distinct(left[a], backend), _distinct(right[b], backend)
        ours, theirs = key_codes(pa.table({a: values_a}), [a], pa.table({b: values_b}), [b], label)
        pair = _looked_up(ours, rows_a, backend), _looked_up(theirs, rows_b, backend)
        codes, size = (pair, len(values_b)) if codes is None else _combined(codes, pair, len(values_b), backend)
    assert codes is not None
    return codes, size


def _distinct(column: Known, backend: Backend) -> tuple[Array, pa.Array]:
    if isinstance(column, Numbers):
        return column.distinct(backend)
    used = column.trimmed(backend)
    return used.codes, used.values


def _looked_up(codes: pa.Array, rows: Array, backend: Backend) -> Array:
    table = np.append(np.asarray(codes.fill_null(-1)), -1)  # position -1, a null, is the last one
    return backend.xp.take(backend.to_device(table), rows)


def _combined(codes: Pair, further: Pair, n_values: int, backend: Backend) -> tuple[Pair, int]:
    """Return the codes of pairs, renumbered so that they never outgrow int64 however many parts a key has."""
    xp = backend.xp
    a, b = (xp.where((i < 0) | (j < 0), -1, i * n_values + j) for i, j in zip(codes, further, strict=True))
    universe = xp.unique(b)
    return (_place(a, universe, xp), _place(b, universe, xp)), len(universe)


def _place(codes: Array, universe: Array, xp: Any) -> Array:
    places = xp.minimum(xp.searchsorted(universe, codes), len(universe) - 1)
    return xp.where((codes >= 0) & (universe[places] == codes), places, -1)


def _require_unique(
    codes: Array, columns: Mapping[str, Known], names: Sequence[str], joined: JoinedTable, label: str, backend: Backend
) -> None:
    present = codes[codes >= 0]
    if len(backend.xp.unique(present)) == len(present):
        return
    on_host = backend.to_host(codes)
    table = pa.table({name: _rows(columns[name], backend) for name in names})
    require_unique(pa.array(on_host, mask=on_host < 0), table, names, joined, label)  # says which rows they are


def _rows(column: Known, backend: Backend) -> pa.Array:
    codes, values = _distinct(column, backend)
    on_host = backend.to_host(codes)
    return values.take(pa.array(on_host, mask=on_host < 0))


def _matches(left: Array, right: Array, size: int, backend: Backend) -> Array:
    """Return for each row of the left the row of the right that has its key; -1 where none does."""
    xp = backend.xp
    row_of = xp.full(max(size, 1), -1, "int64")
    rows = xp.flatnonzero(right >= 0)
    row_of[right[rows]] = rows
    return xp.where(left < 0, -1, xp.take(row_of, xp.maximum(left, 0)))


def _gathered(column: Known, matches: Array, kind: str, backend: Backend) -> Known:
    xp = backend.xp
    has_match, rows = matches >= 0, xp.maximum(matches, 0)
    if isinstance(column, Numbers):
        return Numbers(column.values[rows], column.valid[rows] & has_match, column.type)
    coded = Coded(xp.where(has_match, column.codes[rows], -1), column.values)
    # As in an Arrow dictionary, the levels of rows without a match are kept.
    return coded.trimmed(backend, keep_unused=kind == "categorical" and pa.types.is_string(coded.values.type))
