"""Summaries of columns read in chunks: kind, levels and time formats."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import number_array, text_array
from gpupipe.errors import SchemaError
from gpupipe.names import shorten
from gpupipe.table.blocks import code_storage
from gpupipe.table.exact_values import is_number
from gpupipe.table.list_cells import TEXT
from gpupipe.table.list_columns import KIND_OF, lists_of
from gpupipe.table.number_texts import NumberFormat, is_band
from gpupipe.table.numeric_columns import as_numbers, storage_of
from gpupipe.table.schema import FIRST_LEVEL, Column, DeclaredColumn
from gpupipe.table.string_columns import as_dictionary, sort_levels, used_texts
from gpupipe.table.time_columns import as_times, format_of, is_text
from gpupipe.table.time_formats import common_formats
from gpupipe.units import TICKS_PER_SECOND

BOOLEAN_LEVELS = ("false", "true")
FEW_LEVELS = 50  # up to this many distinct strings are always categories
FIRST_ROWS = 4096
UNREAD_SHOWN = 5
SOME_TEXTS = 200  # of times, for messages
FEW_TEXTS = 4096  # fewer texts are not deduplicated, because files are often small and many
TEXTS = pa.large_string()  # the levels of many chunks may exceed 2 GiB


class ColumnSummary:
    """Incremental summary of a column, from which its schema is derived.

    `kind` is the type of every chunk. `most_rows` is an upper limit of the number of rows. A text column with more
    distinct texts than half of this is not categorical.
    """

    def __init__(self, name: str, kind: pa.DataType, declared: DeclaredColumn | None, most_rows: int) -> None:
        self.name, self.declared = name, declared
        self.most_levels = max(FEW_LEVELS, most_rows // 2)
        self.kind: Any = declared.kind if declared else kind_of(kind)
        self.dtype = str(kind.value_type if pa.types.is_dictionary(kind) else kind)
        self.nullable, self.storage = False, ""
        self.formats: Sequence[str] | None = None  # those that all texts of a datetime column have, None without texts
        self.some_texts: list[str] = []
        self.has_times = self.has_beyond = False  # whether numbers of a unit are times, and too large ones
        self.used, self.unused = DistinctTexts(), DistinctTexts()
        self.number_format = declared.number_format if declared else None
        self.unread: set[str] = set()  # texts that are not in this format
        self.items = set[str]()  # kinds of the items of a list column

    def add(self, values: pa.ChunkedArray) -> None:
        """Add a chunk; raise SchemaError if it does not match the declared kind."""
        if self.kind == "numeric":
            self.add_numbers(values)
            return
        if self.kind == "list":
            values = lists_of(self.name, values)
            self._add_items({KIND_OF[values.type]})
        self.nullable = self.nullable or has_nulls(values, self.kind)
        if self.kind == "datetime":
            self._add_times(values)
        elif self.kind == "categorical":
            self._add_levels(as_dictionary(values))

    def add_numbers(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Add a chunk of a numeric column and return its numbers; raise SchemaError if it contains anything else."""
        numbers = as_numbers(self.name, values, self.number_format)
        if self.number_format is not None and is_text(values.type) and numbers.null_count > values.null_count:
            wrong = as_dictionary(values.filter(pc.is_null(numbers)))
            self.unread.update(text for text in used_texts(wrong) if text.strip())
        self.nullable |= numbers.null_count > 0 or pa.types.is_floating(numbers.type)
        storage = (self.declared and self.declared.storage) or storage_of(numbers)
        self.storage = max(self.storage, storage)  # once float64, always float64
        return numbers

    def _add_items(self, kinds: set[str]) -> None:
        self.items |= kinds - {""}
        if len(self.items) > 1:
            what = f"column {self.name!r} has lists of numbers and lists of texts"
            raise SchemaError(what, fix="write all items as texts", names=[self.name])

    def merge(self, other: ColumnSummary) -> None:
        """Merge the summary of other chunks of the column.

        Raise SchemaError if the times of both have no format in common, or their lists other items.
        """
        self._add_items(other.items)
        self.nullable |= other.nullable
        self.storage = max(self.storage, other.storage)
        self.has_times |= other.has_times
        self.has_beyond |= other.has_beyond
        self.unread |= other.unread
        if other.formats is not None:
            known = other.formats if self.formats is None else self.formats
            self._set_formats([form for form in known if form in other.formats], other.some_texts)
        if other.kind != self.kind:
            self._is_text()  # one of them already has too many levels
        elif self.kind == "categorical":
            self.used.add(other.used.distinct())
            self.unused.add(other.unused.distinct())
            self._require_few_levels()

    def _add_times(self, values: pa.ChunkedArray) -> None:
        if self.declared and self.declared.is_recorded:
            return
        stated = self.declared.time_format if self.declared else None
        if stated in TICKS_PER_SECOND and is_number(values.type):
            n_times = len(values) - as_times(self.name, values, stated).null_count
            self.has_times |= n_times > 0
            self.has_beyond |= n_times < len(values) - values.null_count
        elif stated is None and is_text(values.type):
            texts = [value for value in used_texts(as_dictionary(values)) if value.strip()]
            self._set_formats(common_formats(texts, self.formats), texts)

    def _set_formats(self, formats: Sequence[str] | None, texts: list[str]) -> None:
        self.formats, self.some_texts = formats, [*self.some_texts, *texts][:SOME_TEXTS]
        if formats is not None and not formats:
            format_of(self.name, formats, self.some_texts)

    def _add_levels(self, coded: pa.ChunkedArray) -> None:
        for chunk in coded.chunks:
            codes = used_codes(chunk)
            if len(codes) == len(chunk.dictionary):
                self.used.add(chunk.dictionary)
                continue
            is_used = pc.is_in(number_array(np.arange(len(chunk.dictionary))), value_set=codes.cast(pa.int64()))
            self.used.add(chunk.dictionary.filter(is_used))
            self.unused.add(chunk.dictionary.filter(pc.invert(is_used)))
        self._require_few_levels()

    def _require_few_levels(self) -> None:
        if self.declared is None and self.used.exceeds(self.most_levels):
            self._is_text()

    def as_text(self) -> ColumnSummary:
        """Return the summary as that of a text column, without levels."""
        found = copy(self)
        found._is_text()
        return found

    def _is_text(self) -> None:
        self.kind = "text"
        self.used = DistinctTexts()
        self.unused = DistinctTexts()

    def column(self, n_rows: int) -> Column:
        """Return the column's schema after all `n_rows` rows were added."""
        if self.declared is None and len(self.used.distinct()) > max(FEW_LEVELS, n_rows // 2):
            self._is_text()
        if self.kind == "numeric":
            column = Column(self.name, "numeric", self.dtype, self.nullable, self.storage)
            return replace(column, number_format=self.number_format, unread=self._unread())
        if self.kind == "datetime":
            stated = self.declared.time_format if self.declared else None
            if self.has_beyond and not self.has_times:
                raise SchemaError(
                    f"no number in column {self.name!r} is a time in {stated!r}: the years would be before -290308 or "
                    "after 294246",
                    fix="correct the unit, or the data",
                    names=[self.name],
                )
            time_format = stated or format_of(self.name, self.formats, self.some_texts)
            return Column(self.name, "datetime", self.dtype, self.nullable, "int64", time_format=time_format)
        if self.kind == "boolean":
            return Column(self.name, "boolean", self.dtype, self.nullable, "int8", BOOLEAN_LEVELS, has_normal_form=True)
        if self.kind == "categorical":
            levels = sort_levels({*self.used.distinct().to_pylist(), *self.unused.distinct().to_pylist()})
            storage = code_storage(FIRST_LEVEL + len(levels))
            return Column(self.name, "categorical", self.dtype, self.nullable, storage, levels, has_normal_form=True)
        dtype = f"list<{next(iter(self.items), TEXT)}>" if self.kind == "list" else self.dtype
        return Column(self.name, self.kind, dtype, self.nullable)

    def _unread(self) -> str:
        """Return the warning about texts that are not in the number format; "" if all are."""
        if not self.unread or self.number_format is None:
            return ""
        shown = ", ".join(repr(shorten(text)) for text in sorted(self.unread)[:UNREAD_SHOWN])
        number_format = NumberFormat.from_json(self.number_format)
        is_band_only = not number_format.has_bands and all(map(is_band, self.unread))
        advice = "bands: limit reads bands" if is_band_only else "list further units in schema"
        n = len(self.unread)
        texts = "1 distinct text is" if n == 1 else f"{n:,} distinct texts are"
        return f"column {self.name!r}: {texts} not {number_format.label} and missing: {shown}; {advice}"


def kind_of(kind: pa.DataType) -> str:
    """Return the inferred kind of an undeclared column; text may have too many levels to be categorical."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "datetime"
    return "categorical" if pa.types.is_dictionary(kind) or is_text(kind) else "numeric"


def has_nulls(column: pa.ChunkedArray, kind: str) -> bool:
    """Return whether a non-numeric column has a missing value: null, NaN, or a blank if texts are parsed."""
    if column.null_count:
        return True
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if kind in ("boolean", "datetime") and is_text(column.type):
        column = as_dictionary(column)
        if not all(value.strip() for value in used_texts(column)):
            return True
    # Arrow counts only the nulls of the indices.
    return pa.types.is_dictionary(column.type) and any(
        chunk.dictionary.null_count and chunk.dictionary.take(chunk.indices.unique()).null_count
        for chunk in column.chunks
    )


class DistinctTexts:
    """The distinct texts of several chunks, deduplicated whenever their number has doubled."""

    def __init__(self) -> None:
        self._known = text_array([], TEXTS)
        self._new: list[pa.Array] = []
        self._n_new = 0

    def add(self, texts: pa.Array) -> None:
        """Add texts, skipping nulls."""
        if len(texts):
            self._new.append(texts)
            self._n_new += len(texts)
        if self._n_new > max(len(self._known), FEW_TEXTS):
            self.distinct()

    def exceeds(self, n: int) -> bool:
        """Return whether there are more than `n` distinct texts."""
        return len(self._known) + self._n_new > n and len(self.distinct()) > n

    def distinct(self) -> pa.Array:
        """Return the distinct texts."""
        if self._new:
            kinds = dict.fromkeys(texts.type for texts in self._new)
            alike = (pa.chunked_array([texts for texts in self._new if texts.type == kind]) for kind in kinds)
            chunks = [self._known, *chain.from_iterable(texts.cast(TEXTS).chunks for texts in alike)]
            self._known = pc.unique(pa.chunked_array(chunks)).drop_null()
            self._new, self._n_new = [], 0
        return self._known


def used_codes(chunk: pa.DictionaryArray) -> pa.Array:
    """Return the distinct codes of a dictionary array; usually the first rows contain all of them."""
    codes = chunk.indices.slice(0, FIRST_ROWS).unique().drop_null()
    return codes if len(codes) == len(chunk.dictionary) else chunk.indices.unique().drop_null()
