"""Nulls and ranges of the input columns over the training rows, stored to detect drift."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupipe.names import count_noun
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Schema

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.features.statistics.training import Statistics
    from gpupipe.table.blocks import Table


@dataclass(frozen=True)
class TrainedColumn:
    """Summary of an input column over the training rows."""

    n_null: int  # number of nulls
    # low, high: the smallest and the largest value: numbers, or microseconds since 1970-01-01 UTC; None for categories,
    # and if all values are null.
    low: float | None = None
    high: float | None = None
    # Number of levels that occur once; None for columns without levels. Divided by the number of rows, it estimates the
    # probability that a new row has an unseen level (Good-Turing).
    n_singletons: int | None = None

    def merge(self, other: TrainedColumn | None) -> TrainedColumn:
        """Return the summary with the rows of `other`; None: they lack the column."""
        if other is None:
            return self
        lows = [end for end in (self.low, other.low) if end is not None]
        highs = [end for end in (self.high, other.high) if end is not None]
        n_null = self.n_null + other.n_null
        return TrainedColumn(n_null, min(lows, default=None), max(highs, default=None), self.n_singletons)


@dataclass(frozen=True)
class TrainingSummary:
    """Summary of the input columns over the training rows."""

    n_rows: int
    columns: Mapping[str, TrainedColumn] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"TrainingSummary({count_noun(self.n_rows, 'row')}, {count_noun(len(self.columns), 'column')})"

    def merge(self, other: TrainingSummary) -> TrainingSummary:
        """Return the summary of the rows of both, which have no row in common.

        A level that occurs once in `other` may occur in these rows too, so their single levels are kept as a bound.
        """
        columns = {name: own.merge(other.columns.get(name)) for name, own in self.columns.items()}
        return TrainingSummary(self.n_rows + other.n_rows, columns)

    def without(self, names: Collection[str]) -> TrainingSummary:
        """Return the summary of the columns that are not in `names`."""
        return TrainingSummary(self.n_rows, {name: c for name, c in self.columns.items() if name not in names})

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        columns = {
            name: {"nulls": c.n_null, "low": c.low, "high": c.high, "singletons": c.n_singletons}
            for name, c in self.columns.items()
        }
        return {"rows": self.n_rows, "columns": columns}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> TrainingSummary:
        """Return the summary from the values of `to_json`; raise KeyError, TypeError or AttributeError if malformed."""
        columns = {
            name: TrainedColumn(c["nulls"], c["low"], c["high"], c["singletons"])
            for name, c in document["columns"].items()
        }
        return TrainingSummary(document["rows"], columns)


def summarize(statistics: Statistics, schema: Schema) -> TrainingSummary:
    """Return the summary of the columns of `schema` that are input columns of the table of `statistics`."""
    table = statistics.table.schema
    names = dict.fromkeys(c.name for c in schema if c.name in table and not c.derived and c.hash_of is None)
    found: dict[str, TrainedColumn] = {}
    measured = [name for name in names if table[name].kind in ("numeric", "datetime")]
    parts = statistics.map_tables(measure_ranges, measured) if measured else []
    for name, ranges in zip(measured, zip(*parts, strict=True), strict=True):
        lows, highs = [r.low for r in ranges if r.low is not None], [r.high for r in ranges if r.high is not None]
        found[name] = TrainedColumn(sum(r.n_null for r in ranges), min(lows, default=None), max(highs, default=None))
    for name in names:
        if table[name].levels is not None:
            counts = statistics.code_counts(name)
            n_singletons = int((counts[FIRST_LEVEL:] == 1).sum())
            found[name] = TrainedColumn(int(counts[NULL]), n_singletons=n_singletons)
    return TrainingSummary(statistics.n_rows, {name: found[name] for name in names if name in found})


def measure_ranges(backend: Backend, table: Table, names: list[str]) -> list[TrainedColumn]:
    """Return nulls and ranges of numeric and datetime columns."""
    xp = backend.xp

    def measure(name: str) -> TrainedColumn:
        values = table.column(name)
        is_time = table.schema[name].kind == "datetime"
        n_null = int(backend.to_host(xp.count_nonzero(values == NAT if is_time else xp.isnan(values))))
        if n_null == len(values):
            return TrainedColumn(n_null)
        if is_time:  # minus 1, NAT wraps around to the largest integer
            low, high = backend.to_host(xp.stack([(values - 1).min(), values.max()])).tolist()
            return TrainedColumn(n_null, low + 1, high)
        low, high = backend.to_host(xp.stack([xp.nanmin(values), xp.nanmax(values)])).tolist()
        return TrainedColumn(n_null, low + 0.0, high + 0.0)  # + 0.0 turns -0.0 into 0.0

    return backend.map(measure, names)
