"""Join the ``tables:`` of a configuration on a device; to encode keys, only distinct strings are copied to the host."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.io.device.filter import known_columns
from gpupipe.io.filter import require_column
from gpupipe.io.join import joined_names, require_unique
from gpupipe.io.settings import JoinedTable
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import DeviceColumn, DeviceDictionary, DeviceNumbers, has_texts
from gpupipe.table.device.keys import key_codes
from gpupipe.table.key_matches import KeyMatches
from gpupipe.table.schema import TEXT_KINDS, DeclaredColumn
from gpupipe.typing import Array


def join_columns(
    left: Mapping[str, DeviceColumn],
    right: Mapping[str, DeviceColumn],
    name: str,
    joined: JoinedTable,
    backend: DeviceBackend,
) -> tuple[dict[str, DeviceColumn], str]:
    """Return the columns of the main table with the joined columns of table `name`, and a note about matches.

    Raise SchemaError as `gpupipe.io.join.read_joined`.
    """
    label, on = f"table {name!r}", joined.on
    for key in on.left:
        require_column(list(left), key, "the main table")
    for key in on.right:
        require_column(list(right), key, label)
    ours, theirs = (_trimmed(of, names, backend) for of, names in ((left, on.left), (right, on.right)))
    a, b, size = key_codes(ours, theirs, list(zip(on.left, on.right, strict=True)), label, backend)
    _require_unique(b, right, on.right, joined, label, backend)
    if joined.cardinality == "one_to_one":
        _require_unique(a, left, on.left, joined, "the main table", backend)
    names = joined_names(list(left), list(right), name, joined)
    matches = _matches(a, b, size, backend)
    kinds = {name: declared.kind for name, declared in joined.declarations().items()}
    found = {new: _gathered(right[old], matches, kinds.get(old, "categorical"), backend) for old, new in names.items()}
    return {**left, **found}, _matches_of(left, on.left, right, on.right, matches, backend).note(label)


def key_columns(
    columns: Mapping[str, Any], names: Sequence[str], rules: TextRules, backend: DeviceBackend
) -> dict[str, DeviceColumn]:
    """Return the columns `names`, of any device type, as numbers or dictionaries, to build keys from."""
    chosen = [name for name in dict.fromkeys(names) if name in columns]
    known = known_columns({name: columns[name] for name in chosen}, rules, backend)
    return dict(zip(chosen, _trimmed(known, chosen, backend), strict=True))


class RawColumns(UserDict[str, Any]):
    """Mapping of columns of a frame; text columns are decoded by the rules of their reader on first access.

    `columns` are Series, DeviceNumbers or DeviceDictionary; `names` are those to include, and missing ones
    are ignored.
    """

    def __init__(
        self, columns: Mapping[str, Any], names: Sequence[str], rules: TextRules, backend: DeviceBackend
    ) -> None:
        super().__init__({name: columns[name] for name in names if name in columns})
        self._rules, self._backend = rules, backend

    def __getitem__(self, name: str) -> DeviceColumn:
        known = known_columns({name: self.data[name]}, self._rules, self._backend)
        self.data.update(known)
        return known[name]


def may_be_text(column: Any, declared: DeclaredColumn | None) -> bool:
    """Return True if a column of any device type has text, or is declared as text."""
    return has_texts(column) or (declared is not None and declared.kind in TEXT_KINDS)


def _trimmed(columns: Mapping[str, DeviceColumn], names: Sequence[str], backend: DeviceBackend) -> list[DeviceColumn]:
    """Return columns without dictionary values that no row uses."""
    chosen = (columns[name] for name in names)
    return [column if isinstance(column, DeviceNumbers) else column.trim(backend) for column in chosen]


def _require_unique(
    codes: Array,
    columns: Mapping[str, DeviceColumn],
    names: Sequence[str],
    joined: JoinedTable,
    label: str,
    backend: DeviceBackend,
) -> None:
    present = codes[codes >= 0]
    if len(backend.xp.unique(present)) == len(present):
        return
    on_host = backend.to_host(codes)
    table = pa.table({name: _rows(columns[name], backend) for name in names})
    require_unique(pa.array(on_host, mask=on_host < 0), table, names, joined, label)


def _rows(column: DeviceColumn, backend: DeviceBackend) -> pa.Array:
    codes, values = column.distinct(backend) if isinstance(column, DeviceNumbers) else (column.codes, column.values)
    on_host = backend.to_host(codes)
    return values.take(pa.array(on_host, mask=on_host < 0))


def _matches_of(
    left: Mapping[str, DeviceColumn],
    left_names: Sequence[str],
    right: Mapping[str, DeviceColumn],
    right_names: Sequence[str],
    matches: Array,
    backend: DeviceBackend,
) -> KeyMatches:
    """Return the numbers of matches, with examples of keys if they are few."""
    has_key = backend.xp.ones(len(matches), "bool")
    for name in left_names:
        column = left[name]
        has_key &= column.valid if isinstance(column, DeviceNumbers) else ~column.missing(backend)
    n_keys, n_matches = int(has_key.sum()), int((matches >= 0).sum())
    found = KeyMatches(len(matches), n_keys, n_matches)
    if not found.are_few:
        return found
    ours = int(backend.xp.flatnonzero(has_key & (matches < 0))[0])
    examples = (_key_at(left, left_names, ours, backend), _key_at(right, right_names, 0, backend))
    return replace(found, ours=examples[0], theirs=examples[1])


def _key_at(columns: Mapping[str, DeviceColumn], names: Sequence[str], row: int, backend: DeviceBackend) -> str:
    return ", ".join(repr(_rows(columns[name], backend)[row].as_py()) for name in names)


def _matches(left: Array, right: Array, size: int, backend: DeviceBackend) -> Array:
    """Return for each left row the right row with the same key, -1 if there is none."""
    xp = backend.xp
    row_of = xp.full(max(size, 1), -1, "int64")
    rows = xp.flatnonzero(right >= 0)
    row_of[right[rows]] = rows
    return xp.where(left < 0, -1, xp.take(row_of, xp.maximum(left, 0)))


def _gathered(column: DeviceColumn, matches: Array, kind: str, backend: DeviceBackend) -> DeviceColumn:
    xp = backend.xp
    has_match, rows = matches >= 0, xp.maximum(matches, 0)
    if isinstance(column, DeviceNumbers):
        return DeviceNumbers(column.values[rows], column.valid[rows] & has_match, column.type)
    coded = DeviceDictionary(xp.where(has_match, column.codes[rows], -1), column.values)
    # As in an Arrow dictionary, the levels of rows without a match are kept.
    return coded.trim(backend, keep_unused=kind == "categorical" and pa.types.is_string(coded.values.type))
