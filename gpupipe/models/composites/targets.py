"""Fitted model of several targets: one model for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.models.composites.parts import FittedParts
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.models.fitted.row_estimator import RowEstimator
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, repr=False)
class FittedTargets(FittedParts):
    """A trained model for each of several targets, in their order; see `FittedParts`."""

    library = "targets"
    prefix = "target"

    def _joined(self, parts: list[Prediction], xp: ArrayNamespace) -> Prediction:
        return Prediction.of_targets(parts, xp)

    def _rows(self, engine: HostEngine) -> RowEstimator:
        from gpupipe.models.composites.rows import target_rows

        return target_rows(self, engine)

    def importances(self) -> dict[str, float] | None:
        """Return the mean over the targets of each column's share in the importances, or None if a model has none.

        Importances of different targets have no common scale. Those of linear models count by their absolute value.
        """
        found = [model.importances() for model in self.models]
        total: dict[str, float] = {}
        for own in found:
            if own is None:
                return None
            scale = len(found) * (sum(map(abs, own.values())) or 1.0)
            for name, value in own.items():
                total[name] = total.get(name, 0.0) + abs(value) / scale
        return total

    def column_weights(self, X: Array) -> Array | None:
        import numpy as np

        total = np.zeros(X.shape[1])
        for model in self.models:
            own = model.column_weights(X)
            if own is None:
                return None
            total += own / (own.sum() or 1.0) / len(self.models)
        return total
