"""Encoding of strings to codes. All work is on the few distinct values of each dictionary, never on row strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.table.exact_texts import decimal_text
from gpupipe.table.hash_buckets import bucket_codes
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN

ROWS_AT_ONCE = 65_536  # a block of indices and its codes fit into the cache
ROWS_SHOWN = 10

Codes = npt.NDArray[Any]


def as_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `column` as dictionary-encoded strings, with values of other types in canonical form.

    Integral floats are formatted as integers, so that a nullable integer key has the same levels with every reader.
    """
    if pa.types.is_dictionary(column.type) and _is_string(column.type.value_type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_string(column.type):
        return column.dictionary_encode()
    coded = column.dictionary_encode()
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(c.indices, format_values(c.dictionary)) for c in coded.chunks],
        pa.dictionary(pa.int32(), pa.string()),
    )


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def format_values(values: pa.Array) -> pa.StringArray:
    """Return distinct values as strings, integral floats as integers."""
    if pa.types.is_floating(values.type):
        # + 0.0 turns -0.0 into 0.0.
        texts = [None if v is None or v != v else f"{v + 0.0:.0f}" if float(v).is_integer() else repr(v)
                 for v in values.to_pylist()]  # fmt: skip
        return pa.array(texts, pa.string())
    if pa.types.is_decimal(values.type):
        return pa.array([None if v is None else decimal_text(v) for v in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def dictionaries(column: pa.ChunkedArray) -> list[pa.Array]:
    """Return the distinct dictionaries of the chunks, usually one per file."""
    found: list[pa.Array] = []
    for chunk in column.chunks:
        if not any(chunk.dictionary is d or chunk.dictionary.equals(d) for d in found):
            found.append(chunk.dictionary)
    return found


def used_texts(column: pa.ChunkedArray) -> list[str]:
    """Return the distinct strings in the rows of a dictionary column, without unused dictionary entries."""
    values: dict[str | None, None] = {}
    for chunk in column.chunks:
        values |= dict.fromkeys(chunk.dictionary.take(chunk.indices.unique()).to_pylist())
    return [value for value in values if value is not None]


def sort_levels(values: Iterable[str]) -> tuple[str, ...]:
    """Return levels in canonical order: numeric if all are integers, else by UTF-8 bytes."""
    levels = list(values)
    if all(v.removeprefix("-").isdecimal() and v.isascii() for v in levels):
        return tuple(sorted(levels, key=lambda v: (int(v), v)))
    return tuple(sorted(levels, key=str.encode))


def remap(dictionary: pa.Array, levels: tuple[str, ...], dtype: str) -> Codes:
    """Return the code of each dictionary value in `levels`."""
    position = pc.index_in(dictionary.cast(pa.string()), value_set=pa.array(levels, pa.string()))
    found = pc.fill_null(position, -1).to_numpy(zero_copy_only=False)
    codes = np.where(found >= 0, found + FIRST_LEVEL, UNSEEN).astype(dtype)
    codes[pc.is_null(dictionary).to_numpy(zero_copy_only=False)] = NULL
    return codes


def remap_hashed(dictionary: pa.Array, n_buckets: int, dtype: str) -> Codes:
    """Return the bucket code of each dictionary value."""
    values = dictionary.to_pylist()
    codes = bucket_codes(["" if v is None else v for v in values], n_buckets).astype(dtype)
    codes[[v is None for v in values]] = NULL
    return codes


def write_codes(column: pa.ChunkedArray, tables: Sequence[tuple[pa.Array, Codes]], out: Codes) -> None:
    """Write the codes of a dictionary column.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of dictionary
        Its indices must be within its dictionaries, which the readers guarantee.
    tables : sequence of (dictionary, ndarray)
        For each of the column's `dictionaries`, the code of each value.
    out : ndarray of int, shape (rows,)
    """
    start = 0
    for chunk in column.chunks:
        table = next(t for d, t in tables if d is chunk.dictionary or d.equals(chunk.dictionary))
        # Arrow's take works with int32; NumPy would first convert every index to int64.
        codes = pc.take(pa.array(table), chunk.indices, boundscheck=False)
        if codes.null_count:
            codes = pc.fill_null(codes, NULL)
        out[start : start + len(chunk)] = codes.to_numpy(zero_copy_only=False)
        start += len(chunk)


def rows_of(column: pa.ChunkedArray, values: list[str]) -> list[int]:
    """Return the first rows (from 0) of a dictionary column that contain one of `values`."""
    rows: list[int] = []
    start = 0
    for chunk in column.chunks:
        wanted = pc.index_in(pa.array(values, pa.string()), value_set=chunk.dictionary.cast(pa.string())).drop_null()
        hits = pc.is_in(chunk.indices, value_set=wanted.cast(chunk.indices.type))
        rows += (np.flatnonzero(hits.to_numpy(zero_copy_only=False))[:ROWS_SHOWN] + start).tolist()
        start += len(chunk)
        if len(rows) >= ROWS_SHOWN:
            break
    return rows[:ROWS_SHOWN]


def refuse(name: str, column: pa.ChunkedArray, bad: list[str], expected: str) -> SchemaError:
    """Return the error for a column with values that do not match its kind."""
    shown = ", ".join(repr(v) for v in bad[:5]) + (f" and {len(bad) - 5} other values" if len(bad) > 5 else "")
    rows = ", ".join(str(row + 1) for row in rows_of(column, bad[:100]))
    return SchemaError(
        f"expected {expected} in column {name!r}; found {shown}",
        where=f"data row {rows} (the first {ROWS_SHOWN} at most, counted from 1)",
        fix=f"correct the data, add the value to null_values, or declare schema: {{{name}: categorical}}",
        names=[name],
    )
