"""Rolling windows over a key's history, in rows or time."""

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
    """Add aggregates of the newest part of a key's history: of the last n rows, or of a time span.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off. A
    window is a number of rows, or a span of time before the row or its cut-off. A row exactly as old as the span is
    included, unless rows see themselves (`current`), as in pandas' ``rolling``. Null values are handled as in
    `aggregate`. Without `columns`, rows are counted.

    Output: ``spend_mean_3``, ``spend_sum_30d``, ``count_30d``; float32.

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
        >>> windows = {"columns": "spend", "functions": "sum", "windows": [1, "9d"]}
        >>> ops = [{"rolling": {"key": "customer", "time": "day", **windows}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  spend_sum_1  spend_sum_9d
        0   10.0          0.0           0.0
        1   30.0         10.0          10.0
        2    5.0          0.0           0.0
        3   20.0         30.0          40.0
    """

    columns: Names = Field((), description="Numeric or boolean columns; default: count rows.")
    functions: Functions = Field(("mean",), description="Functions of each column in each window.")
    windows: Windows = Field(description="Number of rows (5) or time span (30d, 12h, 90min); one or a list.")

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each function, window and column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        windows = {str(window): _window(window, view) for window in self.windows}
        if not self.columns:
            for label, queries in windows.items():
                yield view.new_column(self.column_name(f"count_{label}"), keyed.count(queries))
        for name in require_names(self.columns):
            values = view.numbers(name)
            for label, queries in windows.items():
                for function in self.functions:
                    made = keyed.aggregate(values, queries, function)
                    yield view.new_column(self.column_name(f"{name}_{function}_{label}"), made, name)


def _window(window: int | str, view: HistoryView) -> Any:
    from gpupipe_kernels import keyed

    if isinstance(window, int):
        return keyed.last_rows(view.queries, window)
    return keyed.last_span(view.queries, parse_duration_us(window))
