"""Conversion of join keys to integer codes: equal for equal keys, null if a part of the key is null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.table.exact_values import as_whole, wider_number
from gpupipe.table.string_columns import as_dictionary

ROWS_SHOWN = 2


def key_codes(
    left: pa.Table, left_names: Sequence[str], right: pa.Table, right_names: Sequence[str], label: str
) -> tuple[pa.Array, pa.Array]:
    """Return an int64 code from 0 for each row of both tables; null for keys of the left that are not in the right.

    Parameters
    ----------
    left, right : pyarrow.Table
    left_names, right_names : sequence of str
        The key columns of both, in the same order.
    label : str
        The name of the right table, for messages.

    Raises
    ------
    SchemaError
        If a pair of key columns has types that cannot be compared.
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
    values = codes.drop_null().to_numpy()
    ordered = np.sort(values)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return []
    rows = np.flatnonzero(pc.is_in(codes, value_set=pa.array(np.unique(twice))).to_numpy(zero_copy_only=False))
    same = pc.equal(codes, codes[int(rows[0])]).fill_null(False).to_numpy(zero_copy_only=False)
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
    """Return the two columns in a common type: int64 if both are integral, text if both can be text."""
    a, b = key_values(a), key_values(b)
    if a.type == b.type:
        return a, b
    if pa.types.is_decimal(a.type) or pa.types.is_decimal(b.type):
        if (common := wider_number(a.type, b.type)) is not None:
            return a.cast(common), b.cast(common)
        if pa.string() in (a.type, b.type):
            return _as_texts(a), _as_texts(b)
    kinds = {str(a.type), str(b.type)}
    if kinds == {"int64", "string"}:
        numbers, texts = (a, b) if a.type == pa.int64() else (b, a)
        try:
            as_numbers = texts.cast(pa.int64())
        except pa.ArrowInvalid:
            numbers = numbers.cast(pa.string())
            return (numbers, texts) if a.type == pa.int64() else (texts, numbers)
        return (a, as_numbers) if a.type == pa.int64() else (as_numbers, b)
    raise SchemaError(
        f"cannot compare the keys {pair} of types {a.type} and {b.type}",
        where=label,
        fix="convert both columns to the same type: integers, text or times",
    )


def _as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return as_dictionary(column).cast(pa.string())


def key_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a key column in its comparison type: int64 (also for integral floats), string, or its original type.

    Whole numbers outside int64, of uint64 and decimals, are decimals, which keep every digit.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return as_whole(column)
    if pa.types.is_floating(kind):
        present = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        try:
            return present.cast(pa.int64())
        except pa.ArrowInvalid:
            return pc.add(present.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0, which Arrow distinguishes
    return column
