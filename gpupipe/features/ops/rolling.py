"""The newest part of a history: so many rows, or so long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, HistoryView, require_names
from gpupipe.settings import Duration, Names, OneOrMore
from gpupipe.units import parse_duration_us

Function = Literal["count", "sum", "mean", "min", "max", "std"]
Window = Annotated[int, Field(ge=1)] | Duration


Windows = Annotated[tuple[Window, ...], Field(min_length=1), OneOrMore()]
Functions = Annotated[tuple[Function, ...], Field(min_length=1), OneOrMore()]


@OPS.register("rolling")
class Rolling(HistoryOp):
    """Join back functions of the newest part of the history: ``spend_sum_30d``, ``spend_mean_5``, ``count_30d``.

    A window is a number of rows, or a span of time before the row (or its cut-off): a row exactly as old as the span is
    in it, unless the row sees itself (`current`), as with pandas' ``rolling``. Without columns, rows are counted.
    Nulls as in aggregate.
    """

    columns: Names = Field((), description="Numeric or boolean columns; without any, rows are counted.")
    functions: Functions = Field(("mean",), description="Of each column in each window.")
    windows: Windows = Field(description="A number of rows (5), or a span of time (30d, 12h, 90min); or several.")

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each function, window and column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        windows = {str(window): _window(window, view) for window in self.windows}
        if not self.columns:
            for label, queries in windows.items():
                yield view.made(self.named(f"count_{label}"), keyed.count(queries))
        for name in require_names(self.columns):
            values = view.numbers(name)
            for label, queries in windows.items():
                for function in self.functions:
                    made = keyed.aggregate(values, queries, function)
                    yield view.made(self.named(f"{name}_{function}_{label}"), made, name)


def _window(window: int | str, view: HistoryView) -> Any:
    from gpupipe_kernels import keyed

    if isinstance(window, int):
        return keyed.last_rows(view.queries, window)
    return keyed.last_span(view.queries, parse_duration_us(window))
