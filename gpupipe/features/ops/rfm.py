"""Recency, frequency and monetary value: what a customer's purchases come to."""

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
    """Join back the figures of customer value analysis.

    ``recency``: time since the last row of the key, ``tenure``: since the first, in `unit`; ``frequency``: how many
    rows there are; ``monetary``: the sum of `amount`, and ``monetary_mean``: its mean. After A. M. Hughes, "Strategic
    database marketing" (1994).
    """

    amount: str | None = Field(None, description="The numeric column that was spent; without, no monetary value.")
    unit: TimeUnit = Field("days", description="Of recency and tenure.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield the figures."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        yield view.made(self.named("recency"), compute_time_since(view, "last", self.unit))
        yield view.made(self.named("tenure"), compute_time_since(view, "first", self.unit))
        yield view.made(self.named("frequency"), keyed.count(view.queries))
        if self.amount is not None:
            spent = view.numbers(self.amount)
            yield view.made(self.named("monetary"), keyed.aggregate(spent, view.queries, "sum"), self.amount)
            yield view.made(self.named("monetary_mean"), keyed.aggregate(spent, view.queries, "mean"), self.amount)
