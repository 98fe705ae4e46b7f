"""Integer codes of keys on a device: equal if those of `gpupipe.table.keys` are equal, but numbered differently.

Numbers are compared on the device. Texts are compared on the host by their distinct values, and one lookup table is
copied to the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends.base import Backend
from gpupipe.table import keys
from gpupipe.table.device.frame_columns import DeviceColumn, DeviceDictionary, DeviceNumbers
from gpupipe.table.schema import NAT
from gpupipe.typing import Array, ArrayNamespace

Part = tuple[Array, int]  # codes of a column, int64, -1 for no key; and an upper limit of their number
Pair = tuple[Array, Array, int]  # the same for two columns


def row_codes(columns: Sequence[DeviceColumn], backend: Backend) -> Part:
    """Return a code for the key of each row, -1 if a part of it is null, and an upper limit of the number of codes.

    `columns` are the parts of the key, at least one. Codes are int64, shape (rows,).
    """
    first, *others = (_own(column, backend) for column in columns)
    codes, size = first
    for further, n_values in others:
        joint = _joint(codes, further, n_values, backend.xp)
        universe = backend.xp.unique(joint[joint >= 0])
        codes, size = _placed(joint, joint >= 0, universe, backend.xp), len(universe)
    return codes, size


def key_codes(
    left: Sequence[DeviceColumn],
    right: Sequence[DeviceColumn],
    names: Sequence[tuple[str, str]],
    label: str,
    backend: Backend,
) -> Pair:
    """Return a code for each row of both tables, and an upper limit of their number; -1 for keys not in the right.

    `left` and `right` are the key columns of both, in the same order. `names` are those of the columns, and `label`
    that of the right table, for messages. Raise SchemaError if a pair of columns has types that cannot be compared.
    """
    xp = backend.xp
    pairs = zip(left, right, names, strict=True)
    first, *others = (_pair(a, b, of_both, label, backend) for a, b, of_both in pairs)
    mine, theirs, size = first
    for a, b, n_values in others:
        mine, theirs = _joint(mine, a, n_values, xp), _joint(theirs, b, n_values, xp)
        universe = xp.unique(theirs[theirs >= 0])
        mine, theirs = (_placed(codes, codes >= 0, universe, xp) for codes in (mine, theirs))
        size = len(universe)
    return mine, theirs, size


def dictionary_to_device(column: pa.ChunkedArray, backend: Backend) -> DeviceDictionary:
    """Copy the codes of a host column to the device; its distinct values stay on the host."""
    values = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    found = values.drop_null().unique()
    codes = pc.index_in(values, value_set=found, skip_nulls=True).fill_null(-1)
    return DeviceDictionary(backend.to_device(codes.to_numpy().astype(np.int32)), found)


def sort_by_key(codes: Array, times: Array, xp: ArrayNamespace) -> Array:
    """Return the positions of the rows with a key and a time, sorted by key, time and position: int32.

    Negative `codes` and `times` of NAT (int64) are null. The sort of integers of `xp` is stable and a radix sort: two
    of them are faster than one of pairs, as in CuPy's ``lexsort``.
    """
    rows = xp.flatnonzero((codes >= 0) & (times != NAT))
    for by in (times, codes):
        rows = rows[xp.argsort(by[rows], kind="stable")]
    return rows.astype("int32")


def _own(column: DeviceColumn, backend: Backend) -> Part:
    if isinstance(column, DeviceNumbers):
        values = _simple(column, backend.xp)
        universe = backend.xp.unique(values.values[values.valid])
        return _placed(values.values, values.valid, universe, backend.xp), len(universe)
    codes = keys.row_codes(pa.table({"key": column.values}), ["key"])
    return _looked_up(codes, column.codes, backend), len(column.values)


def _pair(a: DeviceColumn, b: DeviceColumn, names: tuple[str, str], label: str, backend: Backend) -> Pair:
    if isinstance(a, DeviceNumbers) and isinstance(b, DeviceNumbers):
        ours, theirs = _simple(a, backend.xp), _simple(b, backend.xp)
        if ours.type == theirs.type:
            universe = backend.xp.unique(theirs.values[theirs.valid])
            mine, other = (_placed(part.values, part.valid, universe, backend.xp) for part in (ours, theirs))
            return mine, other, len(universe)
    (rows_a, values_a), (rows_b, values_b) = (_distinct(column, backend) for column in (a, b))
    left, right = names
    found = keys.key_codes(pa.table({left: values_a}), [left], pa.table({right: values_b}), [right], label)
    mine, other = (_looked_up(codes, rows, backend) for codes, rows in zip(found, (rows_a, rows_b), strict=True))
    return mine, other, len(values_b)


def _simple(numbers: DeviceNumbers, xp: ArrayNamespace) -> DeviceNumbers:
    """Return integers and integral floats as int64, and other types unchanged."""
    if pa.types.is_integer(numbers.type):
        return DeviceNumbers(numbers.values.astype("int64"), numbers.valid, pa.int64())
    if not pa.types.is_floating(numbers.type):
        return numbers
    present = numbers.values[numbers.valid]
    is_whole = (present == xp.trunc(present)) & (present >= -(2.0**63)) & (present < 2.0**63)
    if not bool(is_whole.all()) and not pa.types.is_float64(numbers.type):
        return numbers  # a float32 is compared with other types by its text
    kind = pa.int64() if bool(is_whole.all()) else pa.float64()
    known = xp.where(numbers.valid, numbers.values, 0)  # a null is NaN, which is not integral
    return DeviceNumbers(known.astype(str(kind.to_pandas_dtype().__name__)), numbers.valid, kind)


def _distinct(column: DeviceColumn, backend: Backend) -> tuple[Array, pa.Array]:
    return column.distinct(backend) if isinstance(column, DeviceNumbers) else (column.codes, column.values)


def _looked_up(codes: pa.Array, rows: Array, backend: Backend) -> Array:
    table = np.append(np.asarray(codes.fill_null(-1)), -1)  # position -1, a null, is the last entry
    return backend.xp.take(backend.to_device(table), rows)


def _joint(codes: Array, further: Array, n_values: int, xp: ArrayNamespace) -> Array:
    """Return the codes of pairs; both codes are below 2 ** 31, so they fit into int64."""
    return xp.where((codes < 0) | (further < 0), -1, codes * n_values + further)


def _placed(values: Array, valid: Array, universe: Array, xp: ArrayNamespace) -> Array:
    """Return the position of each value in sorted values, -1 if it is null or absent."""
    if not len(universe):
        return xp.full(len(values), -1, "int64")
    places = xp.minimum(xp.searchsorted(universe, values), len(universe) - 1)
    return xp.where(valid & (universe[places] == values), places, -1)
