"""Permutation importances of a trained model, stored in its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.files.jsonfile import plain

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.metrics import ColumnImportance


@dataclass(frozen=True)
class Importances:
    """Decline of a metric when an input column is shuffled.

    `columns` has the mean and the standard deviation over the repeats by input column, most important first.
    """

    metric: str
    columns: Mapping[str, tuple[float, float]]

    @staticmethod
    def of(metric: str, measured: Sequence[ColumnImportance]) -> Importances:
        """Return measured importances of `metric`."""
        return Importances(metric, {each.name: (each.mean, each.std) for each in measured})

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; values that are not finite are null."""
        columns = [{"column": name, "importance": mean, "std": std} for name, (mean, std) in self.columns.items()]
        values: dict[str, Any] = plain({"metric": self.metric, "columns": columns})
        return values

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with the columns ``column``, ``importance`` and ``std``; ``attrs["metric"]`` is the metric."""
        import pandas as pd

        rows = [(name, mean, std) for name, (mean, std) in self.columns.items()]
        frame = pd.DataFrame(rows, columns=["column", "importance", "std"])
        frame.attrs["metric"] = self.metric
        return frame
