"""Type, distinct values and counts of raw columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Holds = Literal["text", "integer", "number", "boolean", "time"]


@dataclass(frozen=True)
class ColumnFacts:
    """A column, its distinct values, and their counts."""

    name: str
    holds: Holds  # the type that the reader inferred
    values: pa.ChunkedArray
    distinct: pa.Array  # the distinct values, without nulls
    counts: Any  # int, shape (len(distinct),)

    @property
    def n_rows(self) -> int:
        """Number of rows, including nulls."""
        return len(self.values)

    @property
    def n_filled(self) -> int:
        """Number of non-null rows."""
        return int(self.counts.sum())

    @property
    def n_null(self) -> int:
        """Number of nulls."""
        return self.n_rows - self.n_filled

    @property
    def n_distinct(self) -> int:
        """Number of distinct values."""
        return len(self.counts)

    @property
    def most_frequent(self) -> Any:
        """The most frequent value."""
        return self.distinct[int(self.counts.argmax())].as_py()

    @cached_property
    def texts(self) -> list[str]:
        """The distinct values of a text column."""
        return [str(text) for text in self.distinct.to_pylist()]

    @cached_property
    def range(self) -> tuple[float, float]:
        """Minimum and maximum of a numeric column; (0, 0) if it is empty."""
        bounds = pc.min_max(self.distinct).as_py()
        return (0, 0) if bounds["min"] is None else (bounds["min"], bounds["max"])


def collect_facts(table: pa.Table) -> dict[str, ColumnFacts]:
    """Return the facts of each column, by name."""
    return {name: _facts(name, column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _facts(name: str, column: pa.ChunkedArray) -> ColumnFacts:
    kind = column.type
    if pa.types.is_dictionary(kind):
        distinct, counts = _counted_levels(column)
        return ColumnFacts(name, "text", column, distinct, counts)
    counted = pc.value_counts(column)
    distinct, counts = counted.field("values"), counted.field("counts").to_numpy()
    filled = distinct.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        filled &= ~pc.fill_null(pc.is_nan(distinct), True).to_numpy(zero_copy_only=False)
    return ColumnFacts(name, _holds(kind), column, distinct.filter(pa.array(filled)), counts[filled])


def _counted_levels(column: pa.ChunkedArray) -> tuple[pa.Array, Any]:
    """Return the levels of a dictionary column and their counts, by counting codes per chunk."""
    found: dict[str, int] = {}
    for chunk in column.chunks:
        codes = chunk.indices.drop_null().to_numpy()
        counts = np.bincount(codes, minlength=len(chunk.dictionary))
        for text, n in zip(chunk.dictionary.to_pylist(), counts.tolist(), strict=True):
            if n and text is not None:
                found[text] = found.get(text, 0) + n
    return pa.array(list(found), pa.string()), np.array(list(found.values()), np.int64)


def _holds(kind: pa.DataType) -> Holds:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_timestamp(kind):
        return "time"
    return "integer" if pa.types.is_integer(kind) else "number"
