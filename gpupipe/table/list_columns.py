"""Columns of lists: Arrow lists and JSON arrays in one layout, offsets and items.

A list column is never split into blocks. It is stored as an Arrow list, whose buffers are those of a compressed sparse
row matrix: int64 offsets, shape (n_rows + 1,), and the items of all rows, float64 or int32 codes of a dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import number_array, text_array, to_numpy
from gpupipe.errors import SchemaError
from gpupipe.table.list_cells import MOST_EXACT, NUMBER, TEXT, list_items
from gpupipe.table.row_numbers import CellsError, RowNumbers
from gpupipe.table.schema import LARGEST, Column
from gpupipe.table.string_columns import as_dictionary, rows_of
from gpupipe.table.time_columns import is_text

NUMBERS = pa.large_list(pa.float64())
TEXTS = pa.large_list(pa.dictionary(pa.int32(), pa.string()))
NULLS = pa.large_list(pa.null())
LAYOUTS = {NUMBER: NUMBERS, TEXT: TEXTS, "": NULLS}
KIND_OF = {kind: name for name, kind in LAYOUTS.items()}

BAD_SHOWN = 5
READ_LISTS = "add an op to features, such as - list_stats: {name}"


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list of numbers, texts or booleans, of any layout."""
    types = pa.types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    item = kind.value_type
    if types.is_dictionary(item):
        item = item.value_type
    plain = types.is_integer(item) or types.is_floating(item) or types.is_boolean(item) or types.is_null(item)
    return bool(plain or _is_text(item))


def _is_text(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_string_view(kind))


def plain_lists(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow list column in one of the `LAYOUTS`; raise SchemaError for integers that float64 rounds."""
    if column.type in KIND_OF:
        return column
    item = column.type.value_type
    item = item.value_type if pa.types.is_dictionary(item) else item
    kind = "" if pa.types.is_null(item) else TEXT if _is_text(item) else NUMBER
    chunks = []
    for chunk in column.chunks:
        items = pc.list_flatten(chunk)
        if kind == NUMBER:
            if pa.types.is_integer(item) and len(items):
                bounds = pc.min_max(items).as_py()
                if bounds["min"] is not None and max(-bounds["min"], bounds["max"]) > MOST_EXACT:
                    what = f"column {name!r} has lists of integers above 2**53, which float64 rounds"
                    raise SchemaError(what, fix="write the items as texts", names=[name])
            items = items.cast(pa.float64(), safe=False)
        elif kind == TEXT:
            items = items.cast(pa.string()).dictionary_encode()
        chunks.append(_assemble(pc.list_value_length(chunk), items))
    return pa.chunked_array(chunks, LAYOUTS[kind])


def read_lists(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return lists or JSON arrays in the layout of a known column; raise SchemaError for values of another kind."""
    found = lists_of(column.name, values, column.expected)
    layout = LAYOUTS[column.item_kind]
    if found.type == layout:
        return found
    if found.type != NULLS:
        what = f"expected {column.expected} in column {column.name!r}; found lists of {KIND_OF[found.type]}s"
        raise SchemaError(what, fix="convert the items to their type in training", names=[column.name])
    return found.cast(layout)


def lists_of(name: str, values: pa.ChunkedArray, expected: str = "lists") -> pa.ChunkedArray:
    """Return lists or JSON arrays in one of the `LAYOUTS`; raise SchemaError for other values."""
    if is_text_column(values):
        return parse_lists(name, values)
    if not (pa.types.is_null(values.type) or values.null_count == len(values) or is_list(values.type)):
        what = f"expected {expected} in column {name!r}; found {values.type} values"
        raise SchemaError(what, fix="write a list in each row, or null", names=[name])
    return plain_lists(name, values) if is_list(values.type) else pa.chunked_array([pa.nulls(len(values), NULLS)])


def is_text_column(values: pa.ChunkedArray) -> bool:
    """Return whether a column contains texts, which may be JSON arrays."""
    kind = values.type
    return is_text(kind) or (pa.types.is_dictionary(kind) and is_text(kind.value_type))


def parse_lists(name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts that are JSON arrays as lists, in one of the `LAYOUTS`; blank texts are null.

    Raise SchemaError if a text is anything else, with rows.
    """
    coded = as_dictionary(values)
    parsed: list[list[Any]] = []
    bad, kinds = dict[str, str](), set[str]()
    for chunk in coded.chunks:
        lists = []
        for text in chunk.dictionary.to_pylist():
            items, kind = None, ""
            try:
                items, kind = (None, "") if not (text or "").strip() else list_items(text)
            except ValueError as error:
                bad[text] = str(error)
            kinds |= {kind} - {""}
            lists.append(items)
        parsed.append(lists)
    if bad:
        some = list(bad)[:BAD_SHOWN]
        what = f"expected a JSON array in column {name!r}; found {', '.join(map(repr, some))}: {bad[some[0]]}"
        rows = RowNumbers(tuple(rows_of(coded, list(bad)[:100])))
        raise CellsError([(what, rows)], fix="correct the data, or make the cell empty", names=[name])
    if len(kinds) > 1:
        what = f"column {name!r} has lists of numbers and lists of texts"
        raise SchemaError(what, fix="write all items as texts", names=[name])
    kind = next(iter(kinds), "")
    chunks = [lists_array(lists, kind).take(chunk.indices) for lists, chunk in zip(parsed, coded.chunks, strict=True)]
    return pa.chunked_array(chunks, LAYOUTS[kind])


def lists_array(lists: Sequence[list[Any] | None], kind: str) -> pa.Array:
    """Return Python lists of floats or texts as an Arrow array in the layout of their `kind`; None is null."""
    lengths = number_array(
        np.array([len(each or ()) for each in lists], np.int64), np.array([each is None for each in lists], bool)
    )
    items = list(chain.from_iterable(each or () for each in lists))
    if kind == NUMBER:
        numbers = np.array([np.nan if item is None else item for item in items], float)
        return _assemble(lengths, number_array(numbers, np.isnan(numbers)))
    if kind == TEXT:
        return _assemble(lengths, text_array(items).dictionary_encode())
    return _assemble(lengths, pa.nulls(len(items)))


def layout_lists(ends: npt.NDArray[np.int64], items: pa.Array) -> pa.ChunkedArray:
    """Return lists in one of the `LAYOUTS`: list i has ``items[ends[i] : ends[i + 1]]``."""
    return pa.chunked_array([pa.LargeListArray.from_arrays(number_array(ends), items)])


def _assemble(lengths: pa.Array, items: pa.Array) -> pa.Array:
    """Return lists of `lengths` items each; null lists have a null length."""
    is_null = to_numpy(lengths.is_null())
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(to_numpy(pc.fill_null(lengths.cast(pa.int64()), 0)), out=ends[1:])
    return pa.LargeListArray.from_arrays(number_array(ends), items, mask=number_array(is_null))


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of a column as offsets and items.

    - `offsets`: int64, shape (n_rows + 1,): the items of row i are ``items[offsets[i] : offsets[i + 1]]``
    - `items`: float64, NaN where null, or int64 codes of `levels`, -1 where null
    - `levels`: distinct texts, sorted; None for numbers
    - `is_null`: bool, shape (n_rows,)
    """

    offsets: npt.NDArray[np.int64]
    items: npt.NDArray[Any]
    levels: tuple[str, ...] | None
    is_null: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Lists:
        """Return the lists of a column in one of the `LAYOUTS`."""
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        ends = np.zeros(len(array) + 1, np.int64)
        np.cumsum(to_numpy(pc.fill_null(pc.list_value_length(array), 0)), out=ends[1:])
        is_null = to_numpy(array.is_null())
        flat = pc.list_flatten(array)
        if column.type != TEXTS:
            items = to_numpy(flat.cast(pa.float64())).astype(float, copy=False)
            return cls(ends, np.where(np.abs(items) <= LARGEST, items, np.nan), None, is_null)
        order = to_numpy(pc.sort_indices(flat.dictionary))
        codes = np.full(len(order) + 1, -1)
        codes[order] = np.arange(len(order))
        levels = tuple(flat.dictionary.take(number_array(order)).to_pylist())
        return cls(ends, codes[to_numpy(pc.fill_null(flat.indices, -1))], levels, is_null)

    def with_null(self) -> Lists:
        """Return the lists, followed by a null list."""
        return Lists(np.append(self.offsets, self.offsets[-1]), self.items, self.levels, np.append(self.is_null, True))

    def __len__(self) -> int:
        return len(self.is_null)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of items of each row, nulls included."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each item."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def codes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any] | tuple[str, ...]]:
        """The code of each item that is not null, and the value of each code: sorted numbers or texts."""
        if self.levels is not None:
            return self.items[self.is_known], self.levels
        values, codes = np.unique(self.items[self.is_known], return_inverse=True)
        return codes, values

    @cached_property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Mask of the items that are not null, bool, shape (len(items),)."""
        return self.items == self.items if self.levels is None else self.items >= 0
