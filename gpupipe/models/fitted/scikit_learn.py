"""Fitted scikit-learn model, stored with skops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.models.files.description import Description
from gpupipe.models.files.scikit_learn import OURS, check_estimator
from gpupipe.models.files.skops import read_skops, write_skops
from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.models.threads import limit_threads
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.typing import Array

# Some estimators copy their input as float64; with blocks of rows, the copy roughly fits into the cache.
BLOCK_ROWS = 131_072


@dataclass(frozen=True, repr=False)
class FittedSklearn(FittedModel):
    """A scikit-learn estimator, stored as a skops file, whose types are checked before anything is loaded."""

    library = "scikit-learn"
    file = "estimator.skops"

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> Any:
        """Return the estimator in the content of a file.

        Raises
        ------
        ArtifactError
            If the file is malformed, or names a type that is not allowed.
        ValueError
            If the estimator does not match the model, or has unsafe state.
        """
        estimator = read_skops(data, where)
        check_estimator(estimator, expected)
        return estimator

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, in blocks."""
        import numpy as np

        def blocked(predict: Callable[[Array], Array]) -> Array:
            return _blocked(predict, X, copy=type(self.estimator).__name__ not in OURS)

        with limit_threads(blas=1):  # narrow matrices: see gpupipe.models.linear
            if self.task in CLASSIFICATION:
                return self._classification(blocked(self.estimator.predict_proba))
            if self.task == "regression":
                return Prediction(self.task, value=blocked(self.estimator.predict).astype(np.float64, copy=False))
            if self.task == "embedding":
                return Prediction(self.task, embedding=blocked(self.estimator.transform))
            distance = blocked(self.estimator.transform)
        label = distance.argmin(axis=1).astype(np.int32)
        return Prediction(self.task, label=label, distance=distance.min(axis=1).astype(np.float64))

    def importances(self) -> dict[str, float] | None:
        """Return coefficients, impurity decreases or total gains; None if the estimator has none.

        A forest that was trained on a device has none: only its splits and leaves are copied to the host.
        """
        import numpy as np

        estimator = self._innermost
        values = getattr(estimator, "feature_importances_", None)
        if values is None:
            values = getattr(estimator, "coef_", None)
        if values is None and hasattr(estimator, "_predictors"):
            values = _total_gains(estimator)
        if values is None or not np.isfinite(values).all():
            return None
        if values.ndim == 2:
            values = values[0] if len(values) == 1 else np.abs(values).mean(axis=0)
        if self.feature_names and len(values) != len(self.feature_names):  # columns of an earlier pipeline step
            return None
        return {name: float(value) for name, value in zip(self._names(len(values)), values, strict=True)}

    def column_weights(self, X: Array) -> Array | None:
        """Return the weight of each column; coefficients are multiplied by the standard deviation of their columns."""
        import numpy as np

        own = super().column_weights(X)
        if own is None or not hasattr(self._innermost, "coef_"):
            return own
        importance: Array | None = own * X.std(axis=0, dtype=np.float64)
        return importance

    @property
    def _innermost(self) -> Any:
        """The estimator inside a calibration, or the estimator itself."""
        calibrated = getattr(self.estimator, "calibrated_classifiers_", None)
        return calibrated[0].estimator if calibrated else self.estimator

    def _write(self, path: Path) -> None:
        write_skops(self.estimator, path)

    def _write_quickly(self, path: Path) -> None:
        write_skops(self.estimator, path, compressed=False)


def _total_gains(boosting: Any) -> Array:
    """Return the total gain of the splits on each column, which scikit-learn 1.9 does not provide."""
    import numpy as np

    gains = np.zeros(boosting.n_features_in_)
    for predictor in chain.from_iterable(boosting._predictors):
        splits = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        np.add.at(gains, splits["feature_idx"], splits["gain"])
    if boosting._preprocessor is not None:  # it reorders the columns, categories first
        is_category = np.asarray(boosting.is_categorical_)
        gains[np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])] = gains.copy()
    return gains


def _blocked(predict: Callable[[Array], Array], X: Array, copy: bool) -> Array:
    """Return ``predict(X)``, computed by blocks of rows; with `copy`, on copies that it may write to."""
    import numpy as np

    blocks = (X[start : start + BLOCK_ROWS] for start in range(0, max(1, len(X)), BLOCK_ROWS))
    found = [predict(block.copy() if copy else block) for block in blocks]
    return found[0] if len(found) == 1 else np.concatenate(found)
