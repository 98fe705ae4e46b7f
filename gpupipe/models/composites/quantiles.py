"""Fitted model of several quantiles: one regression for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.models.composites.parts import FittedParts
from gpupipe.models.fitted.base import in_order
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, repr=False)
class FittedQuantiles(FittedParts):
    """A trained regression for each quantile, lowest first; see `FittedParts`.

    The predictions of a row are sorted, so that no quantile exceeds a higher one.
    """

    library = "quantiles"
    prefix = "quantile"

    @property
    def n_outputs(self) -> int:
        """Number of quantiles."""
        return len(self.estimator)

    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        return Prediction(self.task, quantiles=in_order(xp.stack([part.value for part in parts], axis=1), xp))

    def _rows(self, engine: HostEngine) -> RowEstimator:
        from gpupipe.models.composites.rows import quantile_rows

        return quantile_rows(self, engine)

    def importances(self) -> dict[str, float] | None:
        """Return the mean over the quantiles of the importances, or None if the models have none."""
        found = [model.importances() for model in self.models]
        total: dict[str, float] = {}
        for own in found:
            if own is None:
                return None
            for name, value in own.items():
                total[name] = total.get(name, 0.0) + value / len(found)
        return total
