"""Earlier values of a key, and the change since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, model_validator

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, require_names
from gpupipe.settings import Duration, Names, OneOrMore
from gpupipe.units import parse_duration_us

Period = Annotated[int, Field(ge=1, le=10_000)]
Periods = Annotated[tuple[Period, ...], Field(min_length=1), OneOrMore()]
LagPeriods = Annotated[tuple[Period | Duration, ...], Field(min_length=1), OneOrMore()]


class _Earlier(HistoryOp):
    columns: Names = Field(min_length=1, description="Numeric or boolean columns.")


@OPS.register("lag")
class Lag(_Earlier):
    """Join back the value of the row before (``spend_lag_1``), or of an earlier one; null where there is none.

    A period of 3 is the third row back. A period of 7d is the newest row that is at least 7 days old. Rows are counted,
    not values: the lag of a null value is null. With `current` the row itself is lag 0, so that lag 1 is the row before
    it all the same. With `gap`, lag 1 is the newest row that is at least so old.
    """

    periods: LagPeriods = Field((1,), description="How many rows back (3), or how long ago (7d); a list for several.")

    @model_validator(mode="after")
    def _sees_nothing_younger_than_the_gap(self) -> Lag:
        young = [k for k in self.periods if isinstance(k, str) and parse_duration_us(k) < (self.gap_us or 0)]
        if young:
            raise ValueError(f"a value {young[0]} old is not known yet: the gap is {self.gap}")
        return self

    @property
    def needs_time(self) -> bool:
        """True if the op needs the times of events."""
        return super().needs_time or any(isinstance(k, str) for k in self.periods)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each period of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for name in require_names(self.columns):
            values = view.numbers(name)
            for k in self.periods:
                if isinstance(k, int):
                    lag = keyed.lag(values, view.queries, k + int(self.current))
                else:
                    lag = keyed.lag(values, self.seen_before(sources, view.history, parse_duration_us(k)), 1)
                yield view.made(self.named(f"{name}_lag_{k}"), lag, name)


@OPS.register("difference")
class Difference(_Earlier):
    """Join back the newest value less the one `periods` rows before it: ``spend_difference_1``; null if either is.

    The newest value is that of the row itself in a history of its own table, as pandas' ``groupby().diff()`` has it;
    of another table, or with `as_of` or `gap`, it is the last one that is seen.
    """

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
