"""Sessions: rows of a key with no long gap between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.settings import Duration
from gpupipe.units import TIME_UNITS_US, TimeUnit, parse_duration_us

Figure = Literal["count", "rows", "age"]


@OPS.register("sessions")
class Sessions(KeyedOp):
    """Cut the history where a row comes more than `gap` after the one before it, and join back what is known of it.

    ``session_count``: sessions so far. ``session_rows``: rows of the newest one so far. ``session_age``: time since it
    began, in `unit`; null where there is none.
    """

    gap: Duration = Field(description="The longest pause within a session: 30min, 1h.")
    figures: tuple[Figure, ...] = Field(("count", "rows", "age"), min_length=1, description="What to join back.")
    unit: TimeUnit = Field("minutes", description="Of session_age.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each figure."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        count, rows, age = keyed.sessions(view.queries, parse_duration_us(self.gap), TIME_UNITS_US[self.unit])
        found = {"count": count, "rows": rows, "age": age}
        for figure in self.figures:
            yield view.made(self.named(f"session_{figure}"), found[figure])
