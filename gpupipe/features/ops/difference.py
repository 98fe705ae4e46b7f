"""Changes of a value since an earlier row of its key, or from it to a later one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.tables import DerivationSources
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.keyed_op import Period, ShiftOp, require_names
from gpupipe.settings import OneOrMore

Periods = Annotated[tuple[Period, ...], Field(min_length=1), OneOrMore()]


@OPS.register("difference")
class Difference(ShiftOp):
    """Add the change of a value since an earlier row of its key: the newest value minus the one `periods` rows before
    it.

    In a history of the main table the newest value is that of the row itself, as in pandas' ``groupby().diff()``. With
    `table`, `as_of` or `gap` it is the last value that the row sees. Null if either value is null or missing. With a
    negative period, the value of a later row is subtracted, as in ``groupby().diff(-1)``; as in `lag`, this is refused
    with ``split.time``. `time` may be a numeric column.

    Output: ``spend_difference_1``; float32.

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
        >>> ops = [{"difference": {"key": "customer", "time": "day", "columns": "spend"}}]
        >>> program = FeatureProgram([*ops, {"drop": "day"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           spend  spend_difference_1
        0   10.0                 NaN
        1   30.0                20.0
        2    5.0                 NaN
        3   20.0               -10.0
    """

    periods: Periods = Field((1,), description="Number of rows back, or ahead if negative; one or a list.")

    def derive(self, sources: DerivationSources) -> Iterable[DerivedColumn]:
        """Yield a column for each period of each column."""
        view = (self.model_copy(update={"current": True}) if self.has_own_history else self).view(sources)
        for name in require_names(self.columns):
            newest = view.earlier(name, 1)
            for k in self.periods:
                other = self.later(view, name, -k) if k < 0 else view.earlier(name, k + 1)
                change = (newest - other).astype("float32")  # float32 may not hold the values themselves
                yield view.new_column(self.column_name(f"{name}_difference_{k}"), change, name)
