"""Earlier and later values of a key: the lag op."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, model_validator

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import Period, ShiftOp, require_names
from gpupipe.settings import Duration, OneOrMore
from gpupipe.units import parse_duration_us

Periods = Annotated[tuple[Period | Duration, ...], Field(min_length=1), OneOrMore()]


@OPS.register("lag")
class Lag(ShiftOp):
    """Add earlier values of a key: the value n rows back, or the newest one of at least a given age.

    Each row sees the earlier rows of its `key`; with `table`, it sees the events of its entity before the cut-off. A
    period of 3 is the third row back; a period of ``7d`` is the newest row that is at least 7 days old. Rows are
    counted, not values: the lag of a null value is null, as is the lag where there is no such row. With `current`, the
    row itself is lag 0, so lag 1 is still the row before it. With `gap`, lag 1 is the newest row that is at least that
    old.

    A negative period reads the future: -1 is the next row of the key. This leaks if a model is to predict before the
    next row exists, so it is refused with ``split.time`` and is otherwise a warning. `time` may be a numeric column,
    unless a period is a duration.

    Output: ``spend_lag_1``, ``spend_lag_7d``, of -1 ``spend_lead_1``; float32.

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
        >>> ops = [{"lag": {"key": "customer", "time": "day", "columns": "spend", "periods": [1, "7d"]}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  spend_lag_1  spend_lag_7d
        0   10.0          NaN           NaN
        1   30.0         10.0           NaN
        2    5.0          NaN           NaN
        3   20.0         30.0          30.0
    """

    periods: Periods = Field(
        (1,), description="Number of rows back (3), ahead (-1), or minimum age (7d); one or a list."
    )

    @model_validator(mode="after")
    def _check_periods(self) -> Lag:
        young = [k for k in self.periods if isinstance(k, str) and parse_duration_us(k) < (self.gap_us or 0)]
        if young:
            raise ValueError(f"periods: values {young[0]} old are not known yet; expected at least the gap, {self.gap}")
        return self

    @property
    def needs_time(self) -> bool:
        """True if the op requires event times."""
        return super().needs_time or any(isinstance(k, str) for k in self.periods)

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each period of each column."""
        from gpupipe_kernels import keyed

        view = self.view(sources)
        for name in require_names(self.columns):
            values = view.numbers(name)
            for k in self.periods:
                if isinstance(k, int) and k < 0:
                    lead = self.later(view, name, -k).astype("float32")
                    yield view.new_column(self.column_name(f"{name}_lead_{-k}"), lead, name)
                    continue
                if isinstance(k, int):
                    lag = keyed.lag(values, view.queries, k + int(self.current))
                else:
                    lag = keyed.lag(values, self.seen_before(sources, view.history, parse_duration_us(k)), 1)
                yield view.new_column(self.column_name(f"{name}_lag_{k}"), lag, name)
