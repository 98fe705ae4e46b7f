"""Aggregates over the history of a key: counts, sums, means, extremes, first and last values."""

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
OF_CODES = ("count", "nunique", "first", "last")
OF_ROWS = "*"


Functions = Annotated[tuple[Function, ...], OneOrMore()]


@OPS.register("aggregate")
class Aggregate(HistoryOp):
    """Join back what the history of a row's key comes to: ``spend_sum``, ``country_last``, ``count``.

    ``columns`` is a list, each of whose columns gets all `functions`, or a mapping of column to function or functions,
    in which ``"*"`` counts rows. Null values are left out: a count is of values, a sum of none is 0, a mean of none is
    null; the standard deviation is that of a sample. Categorical columns have count, nunique, first and last, and
    first and last of them are categorical again. `gaps` are functions of the time between one row and the next, in
    `unit`: ``gap_mean``.
    """

    columns: dict[str, Functions] | Names = Field({}, description="Columns, or column to functions.")
    functions: Functions = Field(("mean",), description="Functions of columns that are listed without any.")
    gaps: tuple[Literal["mean", "min", "max", "std"], ...] = Field((), description="Of the times between the rows.")
    unit: TimeUnit = Field("days", description="Of gaps.")

    @model_validator(mode="after")
    def _asks_for_something(self) -> Aggregate:
        wrong = [f for f in self.wanted().get(OF_ROWS, ()) if f != "count"]
        if wrong:
            raise ValueError(f"rows can be counted; {wrong[0]} is of a column")
        return self

    @property
    def needs_time(self) -> bool:
        """True if the op needs the times of events."""
        return bool(self.gaps) or super().needs_time

    def wanted(self) -> dict[str, tuple[Function, ...]]:
        """Return the functions of each column; rows are counted where nothing is asked for."""
        if isinstance(self.columns, dict):
            return self.columns or ({} if self.gaps else {OF_ROWS: ("count",)})
        return dict.fromkeys(require_names(self.columns), self.functions)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each function of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for name, functions in self.wanted().items():
            if name == OF_ROWS:
                yield view.made(self.named("count"), keyed.count(view.queries))
            else:
                yield from self._of(name, functions, view)
        if self.gaps:
            gaps = keyed.gaps(view.history, TIME_UNITS_US[self.unit])
            for function in self.gaps:
                yield view.made(self.named(f"gap_{function}"), keyed.aggregate(gaps, view.queries, function))

    def _of(self, name: str, functions: tuple[Function, ...], view: HistoryView) -> Iterator[DerivedColumn]:
        from gpupipe_kernels import keyed

        kind = view.kind(name)
        if kind not in ("categorical", "boolean"):
            values = view.numbers(name)
            for function in functions:
                yield view.made(self.named(f"{name}_{function}"), keyed.aggregate(values, view.queries, function), name)
            return
        column, codes = view.codes(name)
        for function in functions:
            made = self.named(f"{name}_{function}")
            yield from _of_codes(function, made, column, codes, view)


def _of_codes(function: Function, made: str, column: Column, codes: Any, view: HistoryView) -> Iterator[DerivedColumn]:
    from gpupipe.table.schema import NULL
    from gpupipe_kernels import keyed

    if function in ("first", "last"):
        yield view.made(made, keyed.pick(codes, view.queries, function, NULL), column.name, like=column)
    elif function in ("count", "nunique"):
        yield view.made(made, keyed.aggregate_codes(codes, view.queries, function, NULL), column.name)
    elif column.kind == "boolean":
        yield view.made(made, keyed.aggregate(view.numbers(column.name), view.queries, function), column.name)
    else:
        raise ConfigError(
            f"aggregate: {column.name!r} is categorical and has no {function}",
            fix=f"use {', '.join(OF_CODES)}",
            names=[column.name],
        )
