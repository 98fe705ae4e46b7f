"""Sessions: consecutive rows of a key without long pauses."""

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
    """Split a key's history into sessions, at each pause longer than `gap`, and add figures of the newest session.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off.
    ``count`` is the number of sessions so far, ``rows`` the number of rows so far in the newest one, and ``age`` the
    time since it began, in `unit`. A row without history has count 0, rows 0 and a null age.

    Output: ``session_count``, ``session_rows``, ``session_age``; float32.

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
        >>> ops = [{"sessions": {"key": "customer", "time": "day", "gap": "3d", "unit": "days"}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  session_count  session_rows  session_age
        0   10.0            0.0           0.0          NaN
        1   30.0            1.0           1.0          2.0
        2    5.0            0.0           0.0          NaN
        3   20.0            1.0           2.0          9.0
    """

    gap: Duration = Field(description="Longest pause within a session: 30min, 1h.")
    figures: tuple[Figure, ...] = Field(("count", "rows", "age"), min_length=1, description="Figures to add.")
    unit: TimeUnit = Field("minutes", description="Unit of session_age.")
    needs_time: ClassVar[bool] = True

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each figure."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        count, rows, age = keyed.sessions(view.queries, parse_duration_us(self.gap), TIME_UNITS_US[self.unit])
        found = {"count": count, "rows": rows, "age": age}
        for figure in self.figures:
            yield view.new_column(self.column_name(f"session_{figure}"), found[figure])
