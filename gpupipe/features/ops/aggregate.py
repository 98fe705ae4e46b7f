"""Aggregates of a key's history: counts, sums, means, extremes, first and last values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, HistoryView, require_names
from gpupipe.settings import Names, OneOrMore
from gpupipe.units import TIME_UNITS_US, TimeUnit

if TYPE_CHECKING:
    from gpupipe.table.schema import Column

Function = Literal["count", "sum", "mean", "min", "max", "std", "nunique", "first", "last"]
CATEGORY_FUNCTIONS = ("count", "nunique", "first", "last")
ROWS = "*"


Functions = Annotated[tuple[Function, ...], OneOrMore()]


@OPS.register("aggregate")
class Aggregate(HistoryOp):
    """Add aggregates of a key's history: count, sum, mean, min, max, std, nunique, first and last.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off.
    `columns` is a list, each column of which gets all `functions`, or a mapping of column to function(s), in which
    ``"*": count`` counts rows. `gaps` aggregates the time between consecutive rows, in `unit`.

    Null values are ignored: ``count`` counts values, the sum of no values is 0, and their mean, min, max, first and
    last are null. ``std`` is the sample standard deviation (``ddof=1``), null for fewer than two values. Categorical
    columns have ``count``, ``nunique``, ``first`` and ``last``.

    Output: ``spend_mean``, ``count``, ``gap_mean``, ... with the prefix ``TABLE_`` for a further table; float32.
    ``first`` and ``last`` of a categorical column are categorical again.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame(
        ...     {
        ...         "customer": ["ann", "ann", "bob", "ann"],
        ...         "day": pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-04", "2024-01-10"]),
        ...         "spend": [10.0, 30.0, 5.0, 20.0],
        ...     }
        ... )
        >>> columns = {"*": "count", "spend": ["mean", "max"]}
        >>> ops = [{"aggregate": {"key": "customer", "time": "day", "columns": columns}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  count  spend_mean  spend_max
        0   10.0    0.0         NaN        NaN
        1   30.0    1.0        10.0       10.0
        2    5.0    0.0         NaN        NaN
        3   20.0    2.0        20.0       30.0
    """

    columns: dict[str, Functions] | Names = Field(
        {}, description="Columns, or a mapping of columns to functions; '*' stands for rows."
    )
    functions: Functions = Field(("mean",), description="Functions for columns that are listed without functions.")
    gaps: tuple[Literal["mean", "min", "max", "std"], ...] = Field(
        (), description="Functions of the time between consecutive rows."
    )
    unit: TimeUnit = Field("days", description="Unit of gaps.")

    @model_validator(mode="after")
    def _check_row_functions(self) -> Aggregate:
        wrong = [f for f in self.functions_by_column().get(ROWS, ()) if f != "count"]
        if wrong:
            raise ValueError(f"'*' supports count only; {wrong[0]} requires a column")
        return self

    @property
    def needs_time(self) -> bool:
        """True if the op requires event times."""
        return bool(self.gaps) or super().needs_time

    def functions_by_column(self) -> dict[str, tuple[Function, ...]]:
        """Return the functions of each column; by default, count rows."""
        if isinstance(self.columns, dict):
            return self.columns or ({} if self.gaps else {ROWS: ("count",)})
        return dict.fromkeys(require_names(self.columns), self.functions)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each function of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for name, functions in self.functions_by_column().items():
            if name == ROWS:
                yield view.new_column(self.column_name("count"), keyed.count(view.queries))
            else:
                yield from self._of(name, functions, view)
        if self.gaps:
            gaps = keyed.gaps(view.history, TIME_UNITS_US[self.unit])
            for function in self.gaps:
                yield view.new_column(
                    self.column_name(f"gap_{function}"), keyed.aggregate(gaps, view.queries, function)
                )

    def _of(self, name: str, functions: tuple[Function, ...], view: HistoryView) -> Iterator[DerivedColumn]:
        from gpupipe_kernels import keyed

        kind = view.kind(name)
        if kind not in ("categorical", "boolean"):
            values = view.numbers(name)
            for function in functions:
                yield view.new_column(
                    self.column_name(f"{name}_{function}"), keyed.aggregate(values, view.queries, function), name
                )
            return
        column, codes = view.codes(name)
        for function in functions:
            made = self.column_name(f"{name}_{function}")
            yield from _of_codes(function, made, column, codes, view)


def _of_codes(function: Function, made: str, column: Column, codes: Any, view: HistoryView) -> Iterator[DerivedColumn]:
    from gpupipe.table.schema import NULL
    from gpupipe_kernels import keyed

    if function in ("first", "last"):
        yield view.new_column(made, keyed.pick(codes, view.queries, function, NULL), column.name, like=column)
    elif function in ("count", "nunique"):
        yield view.new_column(made, keyed.aggregate_codes(codes, view.queries, function, NULL), column.name)
    elif column.kind == "boolean":
        yield view.new_column(made, keyed.aggregate(view.numbers(column.name), view.queries, function), column.name)
    else:
        raise ConfigError(
            f"aggregate: {function} does not apply to {column.name!r}, which is categorical",
            fix=f"use {', '.join(CATEGORY_FUNCTIONS)}",
            names=[column.name],
        )
