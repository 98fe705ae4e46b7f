"""Conversion of keys to integer codes: equal for equal keys, null if a part of the key is null.

Keys are equal if their texts are, in the normal form of `gpupipe.table.level_text`: ``1``, ``1.0`` and the integer 1,
but not ``01``. Types decide how keys are compared, never the other keys. Keys of one type are compared as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import number_array, scalar, to_numpy
from gpupipe.errors import SchemaError
from gpupipe.table.exact_values import as_whole, wider_number
from gpupipe.table.string_columns import as_dictionary, normal_texts

ROWS_SHOWN = 2


def key_codes(
    left: pa.Table, left_names: Sequence[str], right: pa.Table, right_names: Sequence[str], label: str
) -> tuple[pa.Array, pa.Array]:
    """Return an int64 code from 0 for each row of both tables; null for keys of the left that are not in the right.

    The key columns of both are in the same order. `label` is the name of the right table, for messages. Raise
    SchemaError if a pair of key columns has types that cannot be compared.
    """
    codes: tuple[pa.Array, pa.Array] | None = None
    for left_name, right_name in zip(left_names, right_names, strict=True):
        a, b = _comparable(left.column(left_name), right.column(right_name), f"{left_name} = {right_name}", label)
        universe = b.drop_null().unique()
        pair = _codes(a, universe), _codes(b, universe)
        codes = pair if codes is None else _combined(codes, pair, len(universe))
    assert codes is not None
    return codes


def row_codes(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return an int64 code from 0 for the key of each row; null if a part of the key is null."""
    codes: pa.Array | None = None
    for name in names:
        column = key_values(table.column(name))
        universe = column.drop_null().unique()
        part = _codes(column, universe)
        if codes is not None:
            part = pc.add(pc.multiply(codes, max(1, len(universe))), part)
            part = _codes(part, part.drop_null().unique())
        codes = part
    assert codes is not None
    return codes


def find_repeated(codes: pa.Array) -> list[int]:
    """Return the first rows of the first repeated key; nulls are not keys."""
    values = to_numpy(codes.drop_null())
    ordered = np.sort(values)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return []
    rows = np.flatnonzero(to_numpy(pc.is_in(codes, value_set=number_array(np.unique(twice)))))
    same = to_numpy(pc.equal(codes, codes[int(rows[0])]).fill_null(scalar(False, pa.bool_())))
    return [int(row) for row in np.flatnonzero(same)[:ROWS_SHOWN]]


def _codes(column: pa.ChunkedArray, universe: pa.Array) -> pa.Array:
    codes = pc.index_in(column, value_set=universe, skip_nulls=True).cast(pa.int64())
    return codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes


def _combined(
    codes: tuple[pa.Array, pa.Array], further: tuple[pa.Array, pa.Array], n_levels: int
) -> tuple[pa.Array, pa.Array]:
    """Return the codes of pairs, renumbered so that they fit into int64 for any number of key parts."""
    left, right = (pc.add(pc.multiply(a, n_levels), b) for a, b in zip(codes, further, strict=True))
    universe = right.drop_null().unique()
    return _codes(left, universe), _codes(right, universe)


def _comparable(
    a: pa.ChunkedArray, b: pa.ChunkedArray, pair: str, label: str
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the two columns in a common type: that of both, or text."""
    kinds = _family(a.type), _family(b.type)
    if kinds[0] != kinds[1] and "text" not in kinds:
        raise SchemaError(
            f"cannot compare the keys {pair} of types {a.type} and {b.type}",
            where=label,
            fix="convert both columns to the same type: numbers, text or times",
        )
    a, b = key_values(a), key_values(b)
    if a.type == b.type:
        return a, b
    common = wider_number(a.type, b.type)
    if common is None or pa.types.is_floating(common):
        return _texts(a), _texts(b)
    return a.cast(common), b.cast(common)


def _family(kind: pa.DataType) -> str:
    """Return what the values of a type are: keys of two families are equal only as texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_null(kind) or not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return "text"
    return "flag" if pa.types.is_boolean(kind) else "time" if pa.types.is_temporal(kind) else "number"


def key_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a key column in its comparison type: int64 (also for integral floats), text, or its original type.

    Whole numbers outside int64, of uint64 and decimals, are decimals, which keep every digit.
    """
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(column)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return as_whole(column)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
        if not pa.types.is_float64(kind):  # the text of a float32 is shorter than that of float64
            return _texts(column)
        return pc.add(column, 0.0)  # -0.0 becomes 0.0, which Arrow distinguishes
    return column


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of keys in their normal form, computed for each distinct value."""
    chunks = [
        normal_texts(chunk.dictionary.cast(pa.string())).take(chunk.indices) for chunk in as_dictionary(column).chunks
    ]
    return pa.chunked_array(chunks, pa.string())
