"""Exponentially decayed sums and counts of a key's history."""

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
    """Add sums of a key's history in which values fade with age: ``sum(value * 0.5 ** (age / half_life))``.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off. The
    age of an event is the time from it to the row's own time, or to its cut-off. Null values add nothing; a row without
    history has 0. Without `columns`, each row counts 1.

    Output: ``spend_decay_30d``, or ``decay_30d`` without columns; float32.

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
        >>> ops = [{"decay": {"key": "customer", "time": "day", "columns": "spend", "half_life": "2d"}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  spend_decay_2d
        0   10.0        0.000000
        1   30.0        5.000000
        2    5.0        0.000000
        3   20.0        3.093592
    """

    columns: Names = Field((), description="Numeric or boolean columns; default: count rows.")
    half_life: HalfLives = Field(description="Age at which a value counts half (30d, 12h); one or a list.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each half-life of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for label in self.half_life:
            if not self.columns:
                made = keyed.decayed_sum(None, view.queries, parse_duration_us(label))
                yield view.new_column(self.column_name(f"decay_{label}"), made)
            for name in require_names(self.columns):
                made = keyed.decayed_sum(view.numbers(name), view.queries, parse_duration_us(label))
                yield view.new_column(self.column_name(f"{name}_decay_{label}"), made, name)
