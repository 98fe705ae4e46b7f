"""Recency, frequency and monetary value of a customer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp
from gpupipe.features.ops.time_since import compute_time_since
from gpupipe.units import TimeUnit


@OPS.register("rfm")
class RFM(HistoryOp):
    """Add recency, frequency and monetary value of a key, the figures of customer value analysis.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off.
    Recency is the time since the last row and tenure the time since the first, in `unit`; both are null without
    history. Frequency is the number of rows, monetary the sum of `amount` (null amounts are ignored, 0 without
    history).

    Output: ``recency``, ``tenure``, ``frequency``, and with `amount` ``monetary`` and ``monetary_mean``; float32.

    After A. M. Hughes, "Strategic Database Marketing" (1994).

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
        >>> ops = [{"rfm": {"key": "customer", "time": "day", "amount": "spend"}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  recency  tenure  frequency  monetary  monetary_mean
        0   10.0      NaN     NaN        0.0       0.0            NaN
        1   30.0      2.0     2.0        1.0      10.0           10.0
        2    5.0      NaN     NaN        0.0       0.0            NaN
        3   20.0      7.0     9.0        2.0      40.0           20.0
    """

    amount: str | None = Field(None, description="Numeric column of the amount spent; default: no monetary columns.")
    unit: TimeUnit = Field("days", description="Unit of recency and tenure.")
    needs_time: ClassVar[bool] = True

    def value_columns(self) -> tuple[str, ...]:
        """Return the columns whose values the op reads."""
        return () if self.amount is None else (self.amount,)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each figure."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        yield view.new_column(self.column_name("recency"), compute_time_since(view, "last", self.unit))
        yield view.new_column(self.column_name("tenure"), compute_time_since(view, "first", self.unit))
        yield view.new_column(self.column_name("frequency"), keyed.count(view.queries))
        if self.amount is not None:
            spent = view.numbers(self.amount)
            yield view.new_column(
                self.column_name("monetary"), keyed.aggregate(spent, view.queries, "sum"), self.amount
            )
            yield view.new_column(
                self.column_name("monetary_mean"), keyed.aggregate(spent, view.queries, "mean"), self.amount
            )
