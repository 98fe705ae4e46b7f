"""Earlier values of a key, and the change since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from gpupipe.features.base import OPS
from gpupipe.features.derived import Made
from gpupipe.features.keyed import KeyedOp, listed
from gpupipe.features.sources import Sources
from gpupipe.settings import Names, OneOrMore

Period = Annotated[int, Field(ge=1, le=10_000)]
Periods = Annotated[tuple[Period, ...], Field(min_length=1), OneOrMore()]


class _Earlier(KeyedOp):
    columns: Names = Field(min_length=1, description="Numeric or boolean columns.")
    periods: Periods = Field((1,), description="How many rows of the key back; a list for several.")


@OPS.register("lag")
class Lag(_Earlier):
    """Join back the value of the row before (``spend_lag_1``), or of `periods` rows before; null where there is none.

    Rows are counted, not values: the lag of a null value is null. With `current` the row itself is lag 0, so that lag 1
    is the row before it all the same.
    """

    def derive(self, sources: Sources) -> Iterable[Made]:
        """Yield a column for each period of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for name in listed(self.columns):
            values = view.numbers(name)
            for k in self.periods:
                lag = keyed.lag(values, view.queries, k + int(self.current))
                yield view.made(self.named(f"{name}_lag_{k}"), lag, name)


@OPS.register("difference")
class Difference(_Earlier):
    """Join back the newest value less the one `periods` rows before it: ``spend_difference_1``; null if either is.

    The newest value is that of the row itself in a history of its own table, as pandas' ``groupby().diff()`` has it;
    of another table, or with `as_of`, it is the last one before the cut-off.
    """

    def derive(self, sources: Sources) -> Iterable[Made]:
        """Yield a column for each period of each column."""
        from gpupipe_kernels import keyed

        own = self.table is None and self.as_of is None
        view = (self.model_copy(update={"current": True}) if own else self).view(sources)
        for name in listed(self.columns):
            values = view.numbers(name)
            for k in self.periods:
                newest, earlier = (view.array(keyed.lag(values, view.queries, back)) for back in (1, k + 1))
                yield view.made(self.named(f"{name}_difference_{k}"), newest - earlier, name)
