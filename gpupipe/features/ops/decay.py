"""Sums and counts in which the past fades."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import HistoryOp, require_names
from gpupipe.settings import Duration, Names, OneOrMore
from gpupipe.units import parse_duration_us

HalfLives = Annotated[tuple[Duration, ...], Field(min_length=1), OneOrMore()]


@OPS.register("decay")
class Decay(HistoryOp):
    """Join back sums weighted by ``0.5 ** (age / half_life)``: ``spend_decay_30d``; without columns, rows are counted.

    The age is that at the row's own time, or at its cut-off. A null adds nothing.
    """

    columns: Names = Field((), description="Numeric or boolean columns; without any, rows are counted: decay_30d.")
    half_life: HalfLives = Field(description="A span of time (30d, 12h), or several.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each half-life of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for label in self.half_life:
            if not self.columns:
                made = keyed.decayed_sum(None, view.queries, parse_duration_us(label))
                yield view.made(self.named(f"decay_{label}"), made)
            for name in require_names(self.columns):
                made = keyed.decayed_sum(view.numbers(name), view.queries, parse_duration_us(label))
                yield view.made(self.named(f"{name}_decay_{label}"), made, name)
