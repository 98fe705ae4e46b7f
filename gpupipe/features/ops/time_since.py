"""Time since the last or first row of a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, HistoryView, require_names
from gpupipe.settings import Names
from gpupipe.typing import Array
from gpupipe.units import TIME_UNITS_US, TimeUnit

Which = Literal["last", "first"]


@OPS.register("time_since")
class TimeSince(HistoryOp):
    """Add the time since the last or first row of a key.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off. With
    `columns`, only rows count in which the column is neither null nor 0 (false). Null where there is no such row.

    Output: ``time_since_last``, ``time_since_first``, or ``time_since_last_complaint`` for a column; float32, in
    `unit`.

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
        >>> ops = [{"time_since": {"key": "customer", "time": "day", "of": ["last", "first"]}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  time_since_last  time_since_first
        0   10.0              NaN               NaN
        1   30.0              2.0               2.0
        2    5.0              NaN               NaN
        3   20.0              7.0               9.0
    """

    columns: Names = Field(
        (), description="Boolean or numeric columns that must be neither null nor 0; default: every row counts."
    )
    of: tuple[Which, ...] = Field(("last",), min_length=1, description="Event to measure from: last, first or both.")
    unit: TimeUnit = Field("days", description="Unit of the result.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each of `of`, and each column."""
        view = self.view(sources)
        for which in self.of:
            if not self.columns:
                yield view.new_column(
                    self.column_name(f"time_since_{which}"), compute_time_since(view, which, self.unit)
                )
            for name in require_names(self.columns):
                values = compute_time_since(view, which, self.unit, name)
                yield view.new_column(self.column_name(f"time_since_{which}_{name}"), values, name)


def compute_time_since(view: HistoryView, which: Which, unit: TimeUnit, column: str | None = None) -> Array:
    """Return the time from the last or first event to the cut-off of each row, float32, NaN without events."""
    from gpupipe_kernels import keyed

    where = None
    if column is not None:
        values = view.array(view.numbers(column).values)
        where = (values == values) & (values != 0)
    return keyed.time_since(view.queries, which, TIME_UNITS_US[unit], where)
