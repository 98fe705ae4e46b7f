"""Nulls and ranges of the input columns over the training rows, kept to recognize rows unlike them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupipe.features.columns import Numbers, Start
from gpupipe.table.schema import FIRST_LEVEL, NULL, Schema

if TYPE_CHECKING:
    from gpupipe.features.statistics import Statistics


@dataclass(frozen=True)
class TrainedColumn:
    """An input column over the training rows.

    Attributes
    ----------
    n_null : int
        Rows without a value.
    low, high : float or int, optional
        The least and the greatest value: numbers, or microseconds since 1970-01-01 UTC; None for categories, and where
        every row is null.
    n_singletons : int, optional
        Levels that one row has; None for columns without levels. Their share of the rows estimates how often a further
        row has a level that none of these has (Good and Turing).
    """

    n_null: int
    low: float | None = None
    high: float | None = None
    n_singletons: int | None = None


@dataclass(frozen=True)
class TrainingSummary:
    """Input columns over the training rows.

    Attributes
    ----------
    n_rows : int
    columns : mapping of str to TrainedColumn
    """

    n_rows: int
    columns: Mapping[str, TrainedColumn] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"TrainingSummary({self.n_rows:,} rows, {len(self.columns)} columns)"

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        columns = {
            name: {"nulls": c.n_null, "low": c.low, "high": c.high, "singletons": c.n_singletons}
            for name, c in self.columns.items()
        }
        return {"rows": self.n_rows, "columns": columns}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> TrainingSummary:
        """Return the summary that `to_json` described; raise KeyError, TypeError or AttributeError for another."""
        columns = {
            name: TrainedColumn(c["nulls"], c["low"], c["high"], c["singletons"])
            for name, c in document["columns"].items()
        }
        return TrainingSummary(document["rows"], columns)


def summarize(statistics: Statistics, schema: Schema) -> TrainingSummary:
    """Return the summary of the columns of `schema` that the table of `statistics` has and no op has made."""
    table = statistics.table.schema
    names = dict.fromkeys(c.name for c in schema if c.name in table and not c.derived and c.hash_of is None)
    columns = [table[name] for name in names]
    found: dict[str, TrainedColumn] = {}
    numbers = [Numbers(c.name, (c.name,), Start("LOAD", source=c.name)) for c in columns if c.kind == "numeric"]
    if numbers:
        nulls, extremes = statistics.null_counts(numbers), statistics.extremes(numbers)
        for number, n_null, (low, high) in zip(numbers, nulls, extremes, strict=True):
            all_null = n_null == statistics.n_rows
            found[number.name] = TrainedColumn(n_null, *(() if all_null else (low, high)))
    for column in columns:
        if column.kind == "datetime":
            n_null = statistics.missing_times(column.name)
            all_null = n_null == statistics.n_rows
            found[column.name] = TrainedColumn(n_null, *(() if all_null else statistics.time_range(column.name)))
        elif column.levels is not None:
            counts = statistics.code_counts(column.name)
            n_singletons = int((counts[FIRST_LEVEL:] == 1).sum())
            found[column.name] = TrainedColumn(int(counts[NULL]), n_singletons=n_singletons)
    return TrainingSummary(statistics.n_rows, {c.name: found[c.name] for c in columns if c.name in found})
