"""Change of a value since an earlier row of its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, require_names
from gpupipe.features.ops.lag import Period
from gpupipe.settings import Names, OneOrMore

Periods = Annotated[tuple[Period, ...], Field(min_length=1), OneOrMore()]


@OPS.register("difference")
class Difference(HistoryOp):
    """Join back the newest value less the one `periods` rows before it: ``spend_difference_1``; null if either is.

    The newest value is that of the row itself in a history of its own table, as pandas' ``groupby().diff()`` has it;
    of another table, or with `as_of` or `gap`, it is the last one that is seen.
    """

    columns: Names = Field(min_length=1, description="Numeric or boolean columns.")
    periods: Periods = Field((1,), description="How many rows of the key back; a list for several.")

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each period of each column."""
        from gpupipe_kernels import keyed

        own = self.table is None and self.as_of is None and self.gap is None
        view = (self.model_copy(update={"current": True}) if own else self).view(sources)
        for name in require_names(self.columns):
            values = view.numbers(name)
            for k in self.periods:
                newest, earlier = (view.array(keyed.lag(values, view.queries, back)) for back in (1, k + 1))
                yield view.made(self.named(f"{name}_difference_{k}"), newest - earlier, name)
