"""Encoding of strings to codes. All work is on the few distinct values of each dictionary, never on row strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import number_array, scalar, text_array, to_numpy
from gpupipe.errors import SchemaError
from gpupipe.table.exact_texts import decimal_text
from gpupipe.table.hash_buckets import hash_levels
from gpupipe.table.level_text import MAYBE_OTHER, LevelLookup, canonical_text, compares_forms, normal_form, normal_text
from gpupipe.table.row_numbers import ROWS_SHOWN, CellsError, RowNumbers
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN, Column

ROWS_AT_ONCE = 65_536  # a block of indices and its codes fit into the cache

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


def without_zone(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return times as times without a time zone, in UTC; other columns unchanged."""
    kind = column.type
    return column.cast(pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) and kind.tz else column


def format_values(values: pa.Array) -> pa.StringArray:
    """Return distinct values as strings, null for NaN: see `gpupipe.table.level_text`."""
    if pa.types.is_floating(values.type):
        exact = np.float32 if pa.types.is_float32(values.type) else float
        texts = [None if v is None else canonical_text(exact(v)) or None for v in values.to_pylist()]
        return text_array(texts)
    if pa.types.is_decimal(values.type):
        return text_array(None if v is None else decimal_text(v) for v in values.to_pylist())
    texts = without_zone(values).cast(pa.string())
    return normal_texts(texts) if pa.types.is_temporal(values.type) else texts


def normal_texts(texts: pa.Array, dtype: str = "string") -> pa.Array:
    """Return distinct strings in their normal form, for a column of a type; most are in it, which Arrow finds out."""
    form = normal_form(dtype)
    is_other = pc.match_substring_regex(texts, MAYBE_OTHER)
    if form is not normal_text:
        usual = r"^(?:true|false)$" if dtype == "bool" else r"^(?:0|-?[1-9][0-9]{0,17})$"
        is_other = pc.invert(pc.match_substring_regex(texts, usual))
    places = pc.indices_nonzero(pc.fill_null(is_other, scalar(False, is_other.type)))
    if not len(places):
        return texts
    forms = text_array((form(text) for text in texts.take(places).to_pylist()), texts.type)
    return pc.replace_with_mask(texts, pc.fill_null(is_other, scalar(False, is_other.type)), forms)


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


def remap(dictionary: pa.Array, column: Column, of_numbers: bool = False) -> Codes:
    """Return the code of each dictionary value among the levels of a column, as `LevelLookup` finds it.

    With `of_numbers`, the dictionary has the canonical texts of typed numbers.
    """
    texts, levels = dictionary.cast(pa.string()), text_array(column.levels or ())
    position = pc.index_in(texts, value_set=levels)
    is_other = pc.and_(pc.is_null(position), pc.is_valid(texts))
    if compares_forms(column) and pc.any(is_other).as_py():
        forms = normal_texts(levels, column.dtype).dictionary_encode()
        form_of = to_numpy(forms.indices)
        n_levels = np.bincount(form_of, minlength=len(forms.dictionary))
        place = pc.index_in(normal_texts(texts.filter(is_other), column.dtype), value_set=forms.dictionary)
        level_of = np.zeros(len(forms.dictionary) or 1, np.int32)
        level_of[form_of] = np.arange(len(levels))
        of_form = number_array(np.where(n_levels == 1, level_of[: len(n_levels)], -1), n_levels != 1).take(place)
        position = pc.replace_with_mask(position, is_other, of_form.cast(position.type))
    found = to_numpy(pc.fill_null(position, scalar(-1, position.type)))
    if of_numbers and (numbers := LevelLookup(column).numbers):
        places = np.flatnonzero(found < 0)
        found = found.copy()
        found[places] = [numbers.get(text, FIRST_LEVEL - 1) - FIRST_LEVEL for text in texts.take(places).to_pylist()]
    codes = np.where(found >= 0, found + FIRST_LEVEL, UNSEEN).astype(column.storage)
    codes[to_numpy(pc.is_null(dictionary))] = NULL
    return codes


def remap_hashed(dictionary: pa.Array, column: Column) -> Codes:
    """Return the bucket code of each dictionary value of a hashed column."""
    values = dictionary.to_pylist()
    codes = hash_levels(column, ["" if v is None else v for v in values]).astype(column.storage)
    codes[[v is None for v in values]] = NULL
    return codes


def write_codes(column: pa.ChunkedArray, tables: Sequence[tuple[pa.Array, Codes]], out: Codes) -> None:
    """Write the codes of a dictionary column to `out`, int, shape (rows,).

    The indices of `column` must be within its dictionaries, which the readers guarantee. `tables` has, for each of the
    column's `dictionaries`, the dictionary and the code of each value.
    """
    start = 0
    for chunk in column.chunks:
        table = next(t for d, t in tables if d is chunk.dictionary or d.equals(chunk.dictionary))
        # Arrow's take works with int32; NumPy would first convert every index to int64.
        codes = pc.take(number_array(table), chunk.indices, boundscheck=False)
        if codes.null_count:
            codes = pc.fill_null(codes, scalar(NULL, codes.type))
        out[start : start + len(chunk)] = to_numpy(codes)
        start += len(chunk)


def rows_of(column: pa.ChunkedArray, values: list[str]) -> list[int]:
    """Return the first rows (from 0) of a dictionary column that contain one of `values`."""
    rows: list[int] = []
    start = 0
    for chunk in column.chunks:
        wanted = pc.index_in(text_array(values), value_set=chunk.dictionary.cast(pa.string())).drop_null()
        hits = pc.is_in(chunk.indices, value_set=wanted.cast(chunk.indices.type))
        rows += (np.flatnonzero(to_numpy(hits))[:ROWS_SHOWN] + start).tolist()
        start += len(chunk)
        if len(rows) >= ROWS_SHOWN:
            break
    return rows[:ROWS_SHOWN]


def refuse(name: str, column: pa.ChunkedArray, bad: list[str], expected: str) -> SchemaError:
    """Return the error for a column with values that do not match its kind."""
    shown = ", ".join(repr(v) for v in bad[:5]) + (f" and {len(bad) - 5} other values" if len(bad) > 5 else "")
    rows = rows_of(column, bad[:100])
    return CellsError(
        [(f"expected {expected} in column {name!r}; found {shown}", RowNumbers(tuple(rows)))],
        fix=f"correct the data, add the value to null_values, or declare schema: {{{name}: categorical}}",
        names=[name],
    )
