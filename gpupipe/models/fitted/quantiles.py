"""Fitted model of several quantiles: one regression for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gpupipe.models.fitted.base import FittedModel, Prediction, in_order
from gpupipe.models.fitted.parts import save_part

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.fitted.rows.estimator import RowEstimator
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine


@dataclass(frozen=True, repr=False)
class FittedQuantiles(FittedModel):
    """A trained model for each quantile, lowest first. Its `estimator` is a tuple of `FittedModel`, of regressions.

    The predictions of a row are sorted, so that no quantile exceeds a higher one.

    `save` writes the files of each model under their own names with a prefix, such as ``quantile-2-estimator.ubj``.

    Attributes
    ----------
    backend : Backend, optional
        Backend of the device where the predictions are; None on the host.
    """

    library: ClassVar[str] = "quantiles"
    estimator: tuple[FittedModel, ...]
    backend: Backend | None = None

    @property
    def models(self) -> tuple[FittedModel, ...]:
        """The models of all quantiles."""
        return self.estimator

    @property
    def n_quantiles(self) -> int:
        """Number of quantiles."""
        return len(self.estimator)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Receipts of the arrays handed to other libraries in the training of all models."""
        return tuple(receipt for model in self.models for receipt in model.receipts)

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d)."""
        import numpy as np

        xp = np if self.backend is None else self.backend.xp
        parts = [model.predict(X) for model in self.models]
        for part in parts:
            part.check(X.shape[0], 0)
        return Prediction(self.task, quantiles=in_order(xp.stack([part.value for part in parts], axis=1), xp))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return the row estimators of all models; their trees are walked at once."""
        if (portable := self.portable()) is not self:
            return portable.row_estimator(engine)
        if not self.feature_names:
            return super().row_estimator(engine)
        from gpupipe.models.fitted.rows.ensemble import quantile_rows

        return quantile_rows(self, engine)

    def with_library(self) -> FittedModel:
        """Return the models whose predictions are those of their libraries."""
        return self._mapped(lambda model: model.with_library(), self.backend)

    def portable(self) -> FittedModel:
        """Return the models that predict on a machine without a GPU; the conversion is made once."""
        return self._portable

    @cached_property
    def _portable(self) -> FittedModel:
        return self._mapped(lambda model: model.portable(), None)

    def _mapped(self, change: Callable[[FittedModel], FittedModel], backend: Backend | None) -> FittedModel:
        """Return the models, each changed, with their backend; itself if nothing has changed."""
        models = tuple(map(change, self.models))
        is_same = backend is self.backend and all(a is b for a, b in zip(models, self.models, strict=True))
        return self if is_same else replace(self, estimator=models, backend=backend)

    def unstable_rows(self, X: Array) -> Array:
        """Return a mask of the rows for which any model may differ between machines; see `FittedModel`."""
        unstable = super().unstable_rows(X)
        for model in self.models:
            unstable |= model.unstable_rows(X)
        return unstable

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

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the files of all models; see `FittedModel.save`."""
        if (portable := self.portable()) is not self:
            return portable.save(folder, quick=quick)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        models = [save_part(model, folder, file_prefix(i), quick=quick) for i, model in enumerate(self.models)]
        return {
            "library": self.library,
            "files": [name for model in models for name in model["files"]],
            "task": self.task,
            "feature_names": list(self.feature_names),
            "n_classes": 0,
            "classes": [],
            "models": models,
        }


def file_prefix(quantile: int) -> str:
    """Return the prefix of the files of a model, by the position of its quantile."""
    return f"quantile-{quantile + 1}-"
