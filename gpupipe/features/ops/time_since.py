"""Time since the last or first event of a key."""

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
    """Join back how long ago the last (or first) row of the key was: ``time_since_last``; null where there is none.

    With columns, it is the last row in which the column is neither null nor false: ``time_since_last_complaint``.
    """

    columns: Names = Field((), description="Boolean or numeric columns; without any, every row counts.")
    of: tuple[Which, ...] = Field(("last",), min_length=1, description="last, first or both.")
    unit: TimeUnit = Field("days", description="Of the result.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each of `of`, and each column."""
        view = self.view(sources)
        for which in self.of:
            if not self.columns:
                yield view.made(self.named(f"time_since_{which}"), compute_time_since(view, which, self.unit))
            for name in require_names(self.columns):
                values = compute_time_since(view, which, self.unit, name)
                yield view.made(self.named(f"time_since_{which}_{name}"), values, name)


def compute_time_since(view: HistoryView, which: Which, unit: TimeUnit, column: str | None = None) -> Array:
    """Return the time from the last or first row to the cut-off of each row, float32, NaN where there is none."""
    from gpupipe_kernels import keyed

    where = None
    if column is not None:
        values = view.array(view.numbers(column).values)
        where = (values == values) & (values != 0)
    return keyed.time_since(view.queries, which, TIME_UNITS_US[unit], where)
